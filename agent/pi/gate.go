package pi

import (
	"encoding/json"
	"strings"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/host/driver"
)

// gateFile is the extension that asks.
const gateFile = "rein-gate.js"

// gate returns the extension. Its handler of "tool_call" runs inside of pi, in
// 0.73.1 and 1.6.0 alike: one that throws blocks the call, an extension that
// cannot be loaded ends pi before its first request, and a promise that never
// settles ends it without agent_end and without the call.
//
// The input is frozen once it was allowed: extensions that pi finds by itself
// come later and could make another command of it. With that they fail, and the
// call is blocked; an extension that is to rewrite commands is named with -e,
// which puts it before ours. (--no-extensions would do it too, and take the
// user's tools, model providers and, in 1.6.0, MCP away.)
func gate(inv agent.Invocation, f agent.Facts) (agent.File, error) {
	if inv.FilesDir == "" {
		return agent.File{}, &agent.Error{Agent: "pi", Err: agent.ErrUnsupported, Value: "gate", Hint: "it needs a directory for its extension where the agent runs"}
	}
	argv, err := json.Marshal(inv.Gate.Argv) // a JSON array is JavaScript
	if err != nil {
		return agent.File{}, err
	}
	return agent.File{Name: gateFile, Data: []byte(strings.Replace(extension, "ARGV", string(argv), 1))}, nil
}

const extension = `// Written by Rein for one run. It asks before every tool call, and takes
// everything but a clear yes for no.
import { spawn } from "node:child_process";

const argv = ARGV;
const YES = "yes";
const patience = 60_000; // the program gives up after 30 s by itself

function ask(question) {
  return new Promise((resolve) => {
    const no = (why) => resolve({ ok: false, why });
    const child = spawn(argv[0], argv.slice(1), { stdio: ["pipe", "pipe", "pipe"] });
    const timer = setTimeout(() => {
      child.kill("SIGKILL");
      no("rein: refused, because the gate did not answer");
    }, patience);
    let word = "";
    child.stdout.setEncoding("utf8");
    child.stdout.on("data", (s) => {
      if (word.length < 64) word += s;
    });
    let said = "";
    child.stderr.setEncoding("utf8");
    child.stderr.on("data", (s) => {
      if (said.length < 65536) said += s;
    });
    child.on("error", (e) => {
      clearTimeout(timer);
      no("rein: refused, because the gate failed: " + e.message);
    });
    child.on("close", (code) => {
      clearTimeout(timer);
      if (code === 0 && word.trim() === YES) resolve({ ok: true });
      else no(said.trim() || "rein: refused, because the gate failed");
    });
    child.stdin.on("error", () => {}); // it may exit without reading
    child.stdin.end(question);
  });
}

function freeze(v) {
  if (v === null || typeof v !== "object" || Object.isFrozen(v)) return;
  Object.freeze(v);
  for (const key of Object.keys(v)) freeze(v[key]);
}

export default function (pi) {
  pi.on("tool_call", async (event, ctx) => {
    const question = JSON.stringify({
      type: "tool_call", tool: event.toolName, id: event.toolCallId, input: event.input, cwd: ctx?.cwd ?? process.cwd(),
    });
    freeze(event.input); // before the answer: what is asked about is what runs
    Object.freeze(event);
    const answer = await ask(question);
    if (!answer.ok) return { block: true, reason: answer.why };
  });
}
`

// Question reads what the extension asks.
func (Agent) Question(b []byte) (agent.Tool, string, error) {
	var q struct {
		Type  string          `json:"type"`
		Name  string          `json:"tool"`
		ID    string          `json:"id"`
		Input json.RawMessage `json:"input"`
		Dir   string          `json:"cwd"`
	}
	if err := json.Unmarshal(b, &q); err != nil {
		return agent.Tool{}, "", err
	}
	if q.Type != "tool_call" || q.Name == "" {
		return agent.Tool{}, "", &agent.Error{Agent: "pi", Err: agent.ErrArgument, Value: "question", Hint: "it is none of the extension's"}
	}
	t := agent.Tool{ID: q.ID, Name: q.Name}
	arguments(&t, q.Input)
	return t, q.Dir, nil
}

// Answer: anything but 0 and "yes" blocks, with stderr as the reason.
func (Agent) Answer(allow bool, reason string) driver.Reply {
	if allow {
		return agent.Permit()
	}
	return driver.Refuse(reason)
}

// Ran: the end of a call that really ran. Its start is written before the
// extension is asked.
func (Agent) Ran(r agent.Reading) bool {
	return r.Kind == agent.KindToolFinished && r.Tool != nil && !r.Tool.NotRun
}

// Same: the extension is told the id of the call.
func (Agent) Same(asked, ran agent.Tool) bool { return asked.ID != "" && asked.ID == ran.ID }
