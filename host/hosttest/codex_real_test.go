//go:build real && linux

package hosttest

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/hosttest/far"
	"github.com/rein-run/rein/host/local"
	"github.com/rein-run/rein/test/clis"
)

// TestCodexInitializes holds the hosts against a real session protocol: the
// handshake is written right after Start, the answer comes on a clean stdout,
// and end of file on stdin ends the server with code 0 (codex 0.x, recorded in
// codex-app-server). It needs no account.
func TestCodexInitializes(t *testing.T) {
	exe := nativeCodex(t)
	t.Run("local", func(t *testing.T) {
		initialize(t, local.New(&local.Options{Keeper: []string{testBinary(t), "far-keeper"}}), exe, t.TempDir())
	})
	t.Run("in process", func(t *testing.T) { initialize(t, local.New(nil), exe, t.TempDir()) })
	t.Run("far", func(t *testing.T) {
		h := far.New(t, &far.Options{Programs: map[string]string{"codex": exe}, Tools: []string{"sh"}})
		initialize(t, h, "codex", h.Home())
	})
}

// nativeCodex is the program behind the npm wrapper: it needs no Node.js, and so
// runs in the other root too.
func nativeCodex(t *testing.T) string {
	t.Helper()
	modules := filepath.Dir(clis.Codex(t).Dir)
	found, err := filepath.Glob(filepath.Join(modules, "@openai", "codex*", "vendor", "*", "bin", "codex"))
	if err != nil || len(found) != 1 {
		t.Fatalf("the native codex below %s: %v, %v", modules, found, err)
	}
	return found[0]
}

func initialize(t *testing.T, d driver.Host, exe, home string) {
	defer d.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	out := newSink()
	p, err := d.Start(ctx, &driver.Spec{
		ID:     "codex",
		Argv:   []string{exe, "app-server", "-c", "analytics.enabled=false", "--disable", "plugins"},
		Env:    driver.Env{"HOME": home, "CODEX_HOME": home},
		Dir:    home,
		Duplex: true,
	}, out)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill(ctx)
	hello := `{"id":0,"method":"initialize","params":{"clientInfo":{"name":"rein","title":"Rein","version":"0"}}}` + "\n"
	if err := p.Write(ctx, []byte(hello)); err != nil {
		t.Fatal(err)
	}
	out.await(t, 2*time.Minute, "answer to initialize", func() bool {
		return bytes.Contains(out.buf[driver.Stdout].Bytes(), []byte("\n"))
	})
	line, _, _ := bytes.Cut([]byte(out.text(driver.Stdout)), []byte("\n"))
	var answer struct {
		ID     *int
		Result struct{ UserAgent, CodexHome string }
	}
	if err := json.Unmarshal(line, &answer); err != nil || answer.ID == nil || answer.Result.UserAgent == "" {
		t.Fatalf("answer %q: %v", short(line), err)
	}
	if answer.Result.CodexHome != home {
		t.Errorf("codex lives in %q there, want %q", answer.Result.CodexHome, home)
	}
	if err := p.CloseStdin(ctx); err != nil {
		t.Fatal(err)
	}
	exit, err := p.Wait(ctx)
	if err != nil || exit.Reason != driver.Exited || exit.Code == nil || *exit.Code != 0 {
		t.Errorf("end: %s, %v; want exited with code 0", describe(exit), err)
	}
}
