//go:build real

package real

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

// mcpMark makes the test binary an MCP server over stdio with one tool, "poke",
// which writes the file that is the variable's value.
const mcpMark = "REIN_TEST_MCP"

func mcpServer() int {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return 0
		}
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Version string `json:"protocolVersion"`
			} `json:"params"`
		}
		if json.Unmarshal(line, &m) != nil || m.ID == nil {
			continue // a notification
		}
		var result any = map[string]any{}
		switch m.Method {
		case "initialize":
			result = map[string]any{
				"protocolVersion": m.Params.Version, "capabilities": map[string]any{"tools": map[string]any{}},
				"serverInfo": map[string]any{"name": "probe", "version": "1"},
			}
		case "tools/list":
			result = map[string]any{"tools": []any{map[string]any{
				"name": "poke", "description": "writes a file", "inputSchema": map[string]any{"type": "object", "properties": map[string]any{}},
			}}}
		case "tools/call":
			os.WriteFile(os.Getenv(mcpMark), []byte("poked"), 0o600)
			result = map[string]any{"content": []any{map[string]any{"type": "text", "text": "poked"}}}
		}
		b, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result})
		fmt.Printf("%s\n", b)
	}
}
