package agenttest

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/internal/jsonline"
)

func TestMain(m *testing.M) { Main(m) }

// good is an agent that does all right. Each case of TestBroken takes it and
// breaks one thing.
type good struct {
	name    string
	caps    func(*agent.Capabilities)
	ask     func(*agent.Invocation, *agent.Facts) // before the command is built
	command func(agent.Invocation, agent.Facts, *agent.Command)
	err     func(error) error
	read    func(agent.Line, func(agent.Reading)) // in place of the good one
	version func([]byte) string
}

func (g good) Name() string {
	if g.name != "" {
		return g.name
	}
	return "good"
}

func (g good) Capabilities(string) agent.Capabilities {
	c := agent.Capabilities{
		Executables: []string{"good"}, Aliases: []string{"fine"}, Install: "install good",
		Modes: []agent.Mode{agent.Autonomous, agent.ReadOnly}, Resume: true, Efforts: []string{"low", "high"}, Families: []string{agent.Google},
		Prompt: agent.ByStdin, Terminal: true, Credentials: []string{"GOOD_KEY"}, Scrub: []string{"GOOD_NESTED"},
		Reserved: map[string]string{"--model": "use the model of the run"},
	}
	if g.caps != nil {
		g.caps(&c)
	}
	return c
}

func (g good) Command(inv agent.Invocation, f agent.Facts) (agent.Command, error) {
	if g.ask != nil {
		g.ask(&inv, &f)
	}
	err := agent.Validate(g, inv, f)
	if g.err != nil {
		err = g.err(err)
	}
	if err != nil {
		return agent.Command{}, err
	}
	if f.Exe == "" {
		f.Exe = "good"
	}
	c := agent.Command{Argv: []string{f.Exe}, Env: driver.Env{"GOOD_QUIET": "1"}, Unset: []string{"GOOD_NESTED"}, Stdin: []byte(inv.Prompt)}
	for _, o := range [][2]string{{"--mode", string(inv.Mode)}, {"--resume", inv.Session.Resume}, {"--model", inv.Model}, {"--effort", inv.Effort}} {
		if o[1] != "" {
			c.Argv = append(c.Argv, o[0], o[1])
		}
	}
	c.Argv = append(c.Argv, inv.Args...)
	if g.command != nil {
		g.command(inv, f, &c)
	}
	return c, nil
}

func (g good) VersionArgs() []string { return []string{"--version"} }

func (g good) ParseVersion(b []byte) string {
	if g.version != nil {
		return g.version(b)
	}
	return ""
}

func (g good) NewReader(agent.Facts) agent.Reader { return goodReader(g) }

type goodReader good

func (r goodReader) Read(l agent.Line, emit func(agent.Reading)) {
	if r.read != nil {
		r.read(l, emit)
		return
	}
	if o := jsonline.Open(l.Bytes); o.IsObject() && jsonline.Is(jsonline.Get(l.Bytes, "type"), "end") {
		emit(agent.Reading{Kind: agent.KindTurnEnded, OK: true})
		return
	}
	emit(agent.Reading{Kind: agent.KindUnknown})
}

func (goodReader) End(func(agent.Reading)) {}

// optimist takes whatever its CLI says for a login.
type optimist struct{ good }

func (optimist) HelpArgs(string) [][]string { return [][]string{{"--help"}} }
func (optimist) Flags(string) []string      { return nil }
func (optimist) LoginArgs(string) []string  { return []string{"status"} }
func (optimist) ParseLogin(int, []byte) agent.Login {
	return agent.Login{State: agent.LoggedIn}
}

var transcript = [][]byte{[]byte("{\"type\":\"end\"}\n{\"type\":\"other\"}\n")}

func TestGood(t *testing.T) { Run(t, good{}, &Options{Transcripts: transcript}) }

// Each broken agent is found by the check of its own name: no check is there
// for show.
func TestBroken(t *testing.T) {
	command := func(f func(agent.Invocation, *agent.Command)) good {
		return good{command: func(inv agent.Invocation, _ agent.Facts, c *agent.Command) { f(inv, c) }}
	}
	caps := func(f func(*agent.Capabilities)) good { return good{caps: f} }
	allow := func(kind error) good {
		return good{err: func(err error) error {
			if errors.Is(err, kind) {
				return nil
			}
			return err
		}}
	}
	calls := 0
	for _, c := range []struct {
		check, how string
		agent      agent.Agent
	}{
		{"name", "upper case", good{name: "Good"}},
		{"capabilities", "no install line", caps(func(c *agent.Capabilities) { c.Install = "" })},
		{"capabilities", "no executable", caps(func(c *agent.Capabilities) { c.Executables = nil })},
		{"capabilities", "no mode", caps(func(c *agent.Capabilities) { c.Modes = nil })},
		{"capabilities", "no channel", caps(func(c *agent.Capabilities) { c.Prompt = "" })},
		{"capabilities", "family", caps(func(c *agent.Capabilities) { c.Families = []string{"gogle"} })},
		{"capabilities", "a credential always removed", caps(func(c *agent.Capabilities) { c.Scrub = c.Credentials })},
		{"capabilities", "changes", caps(func(c *agent.Capabilities) { calls++; c.PromptMax = int64(calls) })},
		{"capabilities", "readings without a reader", struct{ agent.Agent }{good{}}},
		{"pure", "writes a file", command(func(inv agent.Invocation, _ *agent.Command) {
			os.WriteFile(filepath.Join(inv.FilesDir, "rules.md"), nil, 0o600)
		})},
		{"pure", "appends to the user's arguments", command(func(inv agent.Invocation, c *agent.Command) {
			c.Argv = append([]string{c.Argv[0]}, append(inv.Args, "--quiet")...)
		})},
		{"pure", "shares its argv", good{command: sharedArgv()}},
		{"pure", "another answer", command(func(_ agent.Invocation, c *agent.Command) {
			calls++
			c.Argv = append(c.Argv, strings.Repeat("x", calls))
		})},
		{"executable", "a name instead of the path", command(func(_ agent.Invocation, c *agent.Command) { c.Argv[0] = "good" })},
		{"executable", "a path in a file name", command(func(_ agent.Invocation, c *agent.Command) { c.Files = []agent.File{{Name: "../x"}} })},
		{"executable", "share", command(func(_ agent.Invocation, c *agent.Command) {
			c.Stop = []agent.StopStep{{Signal: driver.Terminate, Share: 2}}
		})},
		{"modes", "drops the mode", good{ask: func(inv *agent.Invocation, _ *agent.Facts) { inv.Mode = "" }}},
		{"modes", "takes any mode", allow(agent.ErrMode)},
		{"sessions", "drops the session", good{ask: func(inv *agent.Invocation, _ *agent.Facts) { inv.Session.Resume = "" }}},
		{"sessions", "takes any session", allow(agent.ErrSession)},
		{"sessions", "a session it said it has not", struct {
			agent.Agent
			agent.Decoder
		}{liar{good{}}, good{}}},
		{"prompts", "prompt in argv", command(func(inv agent.Invocation, c *agent.Command) { c.Argv = append(c.Argv, inv.Prompt) })},
		{"prompts", "trims", command(func(inv agent.Invocation, c *agent.Command) { c.Stdin = []byte(strings.TrimSpace(inv.Prompt)) })},
		{"prompts", "takes a prompt for a flag", good{ask: func(inv *agent.Invocation, _ *agent.Facts) {
			if inv.Prompt == "--help" {
				inv.Args = append(inv.Args, inv.Prompt)
			}
		}}},
		{"prompts", "takes an empty one", allow(agent.ErrPrompt)},
		{"prompts", "not last", good{caps: func(c *agent.Capabilities) { c.Prompt = agent.ByArg }, command: func(inv agent.Invocation, _ agent.Facts, c *agent.Command) {
			c.Argv = append(c.Argv, inv.Prompt, "--quiet")
		}}},
		{"models", "drops the model", good{ask: func(inv *agent.Invocation, _ *agent.Facts) { inv.Model = "" }}},
		{"models", "takes any model", allow(agent.ErrModel)},
		{"models", "lowers it", good{ask: func(inv *agent.Invocation, _ *agent.Facts) {
			inv.Model = strings.Replace(inv.Model, "gemini", "GEMINI", 1)
		}}},
		{"efforts", "drops the effort", good{ask: func(inv *agent.Invocation, _ *agent.Facts) {
			if inv.Effort == "high" {
				inv.Effort = "low"
			}
		}}},
		{"efforts", "takes any effort", allow(agent.ErrArgument)},
		{"user arguments", "drops them", good{ask: func(inv *agent.Invocation, _ *agent.Facts) { inv.Args = nil }}},
		{"user arguments", "takes any", allow(agent.ErrArgument)},
		{"user arguments", "behind --", good{ask: func(inv *agent.Invocation, _ *agent.Facts) {
			if len(inv.Args) > 0 && inv.Args[0] == "--agenttest=1" {
				inv.Args = nil
			}
		}, command: func(_ agent.Invocation, _ agent.Facts, c *agent.Command) {
			c.Argv = append(c.Argv, "--", "--agenttest=1")
		}}},
		{"environment", "leaves a marker", command(func(_ agent.Invocation, c *agent.Command) { c.Unset = nil })},
		{"environment", "sets what it removes", command(func(_ agent.Invocation, c *agent.Command) { c.Env["GOOD_NESTED"] = "" })},
		{"environment", "sets a credential", command(func(_ agent.Invocation, c *agent.Command) { c.Env["GOOD_KEY"] = "x" })},
		{"errors", "its own", good{err: func(err error) error {
			if err != nil {
				return errors.New("no")
			}
			return nil
		}}},
		{"errors", "shows the prompt", good{}.shows()},
		{"rules", "drops them", caps(func(c *agent.Capabilities) { c.Rules = []agent.RuleChannel{agent.RulesBySystem} })},
		{"rules", "takes any channel", allow(agent.ErrUnsupported)},
		{"rules", "a file without a name", caps(func(c *agent.Capabilities) { c.Rules = []agent.RuleChannel{agent.RulesByFile} })},
		{"observer", "drops it", caps(func(c *agent.Capabilities) { c.Observer = true })},
		{"observer", "drops the schema", caps(func(c *agent.Capabilities) { c.Schema = true })},
		{"doctor", "guesses", optimist{}},
		{"version", "anything", good{version: func(b []byte) string { return strings.TrimSpace(string(b)) }}},
		{"spawn", "the model is lost on the way", good{ask: func(inv *agent.Invocation, _ *agent.Facts) { inv.Model = "" }}},
		{"reader", "panics", good{read: func(l agent.Line, emit func(agent.Reading)) {
			_ = l.Bytes[0]
			emit(agent.Reading{Kind: agent.KindUnknown})
		}}},
		{"reader", "drops what it does not know", good{read: func(agent.Line, func(agent.Reading)) {}}},
		{"reader", "guesses", good{read: func(_ agent.Line, emit func(agent.Reading)) { emit(agent.Reading{Kind: agent.KindText}) }}},
		{"reader", "changes the line", good{read: func(l agent.Line, emit func(agent.Reading)) {
			clear(l.Bytes)
			emit(agent.Reading{Kind: agent.KindUnknown})
		}}},
		{"reader", "success that failed", good{read: func(_ agent.Line, emit func(agent.Reading)) {
			emit(agent.Reading{Kind: agent.KindTurnEnded, OK: true, Failure: &agent.Failure{Class: agent.Auth}})
		}}},
		{"reader", "a negative count", good{read: func(l agent.Line, emit func(agent.Reading)) {
			emit(agent.Reading{Kind: agent.KindUnknown, Usage: &agent.Usage{Scope: agent.PerTurn, Input: -1}})
		}}},
	} {
		t.Run(c.check+"/"+c.how, func(t *testing.T) {
			i := slices.IndexFunc(checks, func(x check) bool { return x.name == c.check })
			if i < 0 {
				t.Fatalf("no check %q", c.check)
			}
			if found := checks[i].problems(c.agent, &Options{Transcripts: transcript}); len(found) == 0 {
				t.Error("the check found nothing")
			}
		})
	}
	// Every check has a broken agent.
	t.Run("all", func(t *testing.T) {
		for _, c := range checks {
			if c.problems(nil, nil) == nil {
				t.Errorf("%s passes an agent that panics", c.name)
			}
		}
	})
}

// sharedArgv always appends to one array.
func sharedArgv() func(agent.Invocation, agent.Facts, *agent.Command) {
	env := driver.Env{"GOOD_QUIET": "1"}
	return func(_ agent.Invocation, _ agent.Facts, c *agent.Command) { c.Env = env }
}

// liar says that it cannot resume, and does.
type liar struct{ agent.Agent }

func (l liar) Capabilities(v string) agent.Capabilities {
	c := l.Agent.Capabilities(v)
	c.Resume = false
	return c
}

// shows puts the prompt into its errors.
func (g good) shows() agent.Agent { return blabber{g} }

type blabber struct{ good }

func (b blabber) Command(inv agent.Invocation, f agent.Facts) (agent.Command, error) {
	c, err := b.good.Command(inv, f)
	var e *agent.Error
	if errors.As(err, &e) {
		shown := *e
		shown.Value = inv.Prompt
		return c, &shown
	}
	return c, err
}

// The kit itself must not depend on the order of a map.
func TestFill(t *testing.T) {
	p := &probe{agent: good{}}
	p.fill()
	if p.Model != samples[agent.Google] || p.Foreign == "" || p.Foreign == p.Model || p.Facts.UID != 1000 || p.Facts.Exe != "/usr/bin/good" {
		t.Errorf("%+v", p.Options)
	}
	if n := len(slices.Collect(maps.Keys(samples))); n < 6 {
		t.Errorf("%d families", n)
	}
}
