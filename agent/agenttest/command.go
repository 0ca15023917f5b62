package agenttest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/rein-run/rein/agent"
)

var goodName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

func checkName(p *probe) {
	if n := p.agent.Name(); !goodName.MatchString(n) {
		p.errorf("%q: a name is what users type: lower case letters, digits and dashes", n)
	}
}

func checkCapabilities(p *probe) {
	c := p.caps
	if !reflect.DeepEqual(c, p.agent.Capabilities(p.Facts.Version)) {
		p.errorf("two calls with one version give two answers")
	}
	if len(c.Executables) == 0 || slices.Contains(c.Executables, "") {
		p.errorf("no executable to look for")
	}
	if c.Install == "" {
		p.errorf("Install is empty: a user whose CLI is missing is told nothing")
	}
	for _, a := range c.Aliases {
		if !goodName.MatchString(a) || a == p.agent.Name() {
			p.errorf("alias %q", a)
		}
	}
	if len(c.Modes) == 0 {
		p.errorf("no permission mode: nothing can be run")
	}
	for _, f := range c.Families {
		if samples[f] == "" {
			p.errorf("unknown model family %q", f)
		}
	}
	if !slices.Contains([]agent.Channel{agent.ByStdin, agent.ByFile, agent.ByArg}, c.Prompt) {
		p.errorf("prompt channel %q", c.Prompt)
	}
	if c.PromptMax < 0 {
		p.errorf("PromptMax %d", c.PromptMax)
	}
	if c.Announces && c.Silent {
		p.errorf("it cannot announce itself and be silent")
	}
	if _, ok := p.agent.(agent.Decoder); !ok && (c.Terminal || c.Tools || c.Usage || c.Cost) {
		p.errorf("it promises readings and has no Decoder")
	}
	for _, v := range c.Credentials {
		if slices.Contains(c.Scrub, v) {
			p.errorf("%s is a credential and always removed: nobody could log in by it", v)
		}
	}
	for flag, hint := range c.Reserved {
		if flag == "" || strings.TrimSpace(hint) == "" {
			p.errorf("reserved flag %q without a hint", flag)
		}
	}
}

// checkPure looks for effects and for memory that is shared with the caller.
func checkPure(p *probe) {
	dir, err := os.MkdirTemp("", "agenttest-")
	if err != nil {
		p.errorf("%v", err)
		return
	}
	defer os.RemoveAll(dir)
	inv := plain()
	inv.Dir, inv.FilesDir = dir, dir
	inv.Prompt = strings.Repeat("long ", 5<<20/5) // the case for a file
	// Room behind the slice: an append to it would show.
	spare := append(make([]string, 0, 8), p.Args...)
	inv.Args = spare
	facts := p.Facts
	first, err1 := p.agent.Command(inv, facts)
	if extra := spare[:cap(spare)][len(spare):]; slices.ContainsFunc(extra, func(s string) bool { return s != "" }) {
		p.errorf("it appends to the caller's Args")
	}
	kept := fmt.Sprint(first.Argv, len(first.Stdin), first.Unset, map[string]string(first.Env))
	for i := range first.Argv {
		first.Argv[i] = "changed"
	}
	for i := range first.Unset {
		first.Unset[i] = "changed"
	}
	for k := range first.Env {
		first.Env[k] = "changed"
	}
	second, err2 := p.agent.Command(inv, facts)
	if again := fmt.Sprint(second.Argv, len(second.Stdin), second.Unset, map[string]string(second.Env)); again != kept || fmt.Sprint(err1) != fmt.Sprint(err2) {
		p.errorf("the same question gives another answer the second time")
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		p.errorf("building a command made %d files: they belong in Command.Files", len(files))
	}
}

func checkExecutable(p *probe) {
	c, ok := p.build("plain", plain())
	if ok && c.Argv[0] != p.Facts.Exe {
		p.errorf("argv[0] is %q, and the facts say %q", c.Argv[0], p.Facts.Exe)
	}
	inv := plain()
	facts := p.Facts
	facts.Exe = ""
	if c, err := p.agent.Command(inv, facts); err != nil || len(c.Argv) == 0 || !slices.Contains(p.caps.Executables, c.Argv[0]) {
		p.errorf("without Facts.Exe argv is %q (%v)", c.Argv, err)
	}
	if ok {
		if err := agent.CheckArgs(c.Argv, c.Env, p.Facts.OS); err != nil {
			p.errorf("%v", err)
		}
	}
	for _, f := range c.Files {
		if f.Name == "" || strings.ContainsAny(f.Name, `/\`) {
			p.errorf("file name %q", f.Name)
		}
	}
	for _, s := range c.Stop {
		if s.Signal == "" || s.Share < 0 || s.Share > 1 {
			p.errorf("stop step %+v", s)
		}
	}
}

func checkModes(p *probe) {
	built := map[string]agent.Mode{}
	for _, m := range p.caps.Modes {
		inv := plain()
		inv.Mode = m
		if c, ok := p.build(string(m), inv); ok {
			how := fmt.Sprint(c.Argv, map[string]string(c.Env))
			if other, ok := built[how]; ok {
				p.errorf("modes %s and %s are the same command", other, m)
			}
			built[how] = m
		}
	}
	for _, m := range []agent.Mode{agent.Autonomous, agent.ReadOnly, "plan", "AUTONOMOUS", " "} {
		if slices.Contains(p.caps.Modes, m) {
			continue
		}
		inv := plain()
		inv.Mode = m
		p.refused(fmt.Sprintf("mode %q", m), inv, agent.ErrMode)
	}
}

// refused wants a typed error of the kind.
func (p *probe) refused(what string, inv agent.Invocation, kind ...error) {
	_, err := p.agent.Command(inv, p.Facts)
	var e *agent.Error
	if !errors.As(err, &e) || !slices.ContainsFunc(kind, func(k error) bool { return errors.Is(err, k) }) {
		p.errorf("%s: got %v, want *agent.Error with %v", what, err, kind)
	}
}

func checkSessions(p *probe) {
	inv := plain()
	fresh, _ := p.build("fresh", inv)
	if !p.caps.Resume {
		for _, s := range []string{"latest", "01a2b3c4"} {
			inv.Session.Resume = s
			p.refused("resume "+s, inv, agent.ErrUnsupported)
		}
		return
	}
	const id = "01a2b3c4-e5f6-7a8b-9c0d-123456789abc"
	for _, s := range []string{"latest", id} {
		inv.Session.Resume = s
		c, ok := p.build("resume "+s, inv)
		if !ok {
			continue
		}
		if slices.Equal(c.Argv, fresh.Argv) {
			p.errorf("resume %s is the same command as a fresh session", s)
		}
		n := 0
		for _, a := range c.Argv {
			if a == id || strings.HasSuffix(a, "="+id) {
				n++
			}
		}
		if want := map[string]int{id: 1}[s]; n != want {
			p.errorf("resume %s: the id is %d times in argv", s, n)
		}
	}
	for _, s := range []string{"--last", "-c", "_x", "a b", "../x", "a/b", "a\nb", "x\x00", strings.Repeat("a", 200), " "} {
		inv.Session.Resume = s
		p.refused(fmt.Sprintf("session %q", s), inv, agent.ErrSession)
	}
}

// hazards are prompts that have been taken for something else.
var hazards = []string{
	"-p", "--help", "--model gpt-5", "- a list\n- of two", "--", "@file", "/help", "!ls", "#x",
	"resume", "exec", "mcp", "login", "update", "help",
	`"quoted" 'and' \back`, "a\nb\r\nc\n", "$(touch x) `touch y` $HOME %PATH% ; && | > <", "*?[a]~", "日本語 é \u2028", "  spaces around  ", "\xff\xfe not UTF-8",
}

func checkPrompts(p *probe) {
	base, ok := p.build("plain", plain())
	if !ok {
		return
	}
	for _, prompt := range hazards {
		inv := plain()
		inv.Prompt = prompt
		c, ok := p.build(fmt.Sprintf("prompt %q", prompt), inv)
		if ok {
			p.delivered(prompt, base, c)
		}
	}
	for _, prompt := range []string{"", " \t\n", "a\x00b"} {
		inv := plain()
		inv.Prompt = prompt
		p.refused(fmt.Sprintf("prompt %q", prompt), inv, agent.ErrPrompt)
	}

	inv := plain()
	inv.FilesDir = "/agenttest/files"
	base, _ = p.build("plain, with a directory for files", inv)
	inv.Prompt = strings.Repeat("A long task. ", 5<<20/13)
	c, err := p.agent.Command(inv, p.Facts)
	if err != nil {
		if p.caps.Prompt != agent.ByArg || !errors.Is(err, agent.ErrPrompt) && !errors.Is(err, agent.ErrArgument) {
			p.errorf("prompt of 5 MB: %v", err)
		}
		return
	}
	p.delivered(inv.Prompt, base, c)
}

// delivered says that the prompt reaches the CLI whole, and only by its channel.
func (p *probe) delivered(prompt string, base, c agent.Command) {
	show := prompt[:min(len(prompt), 40)]
	n := 0
	for _, a := range c.Argv {
		if a == prompt {
			n++
		}
	}
	inFile := slices.ContainsFunc(c.Files, func(f agent.File) bool { return string(f.Data) == prompt })
	switch {
	case p.caps.Prompt == agent.ByArg && !inFile:
		if n != 1 || c.Argv[len(c.Argv)-1] != prompt {
			p.errorf("prompt %q is not the last argument alone", show)
		}
	default:
		if !slices.Equal(c.Argv, base.Argv) && p.caps.Prompt != agent.ByArg {
			p.errorf("prompt %q changes argv: %.300q", show, c.Argv)
		}
		if !inFile && !bytes.Equal(c.Stdin, []byte(prompt)) {
			p.errorf("prompt %q is neither on stdin nor in a file, byte for byte", show)
		}
	}
}

func checkModels(p *probe) {
	inv := plain()
	inv.Model = p.Model
	if c, ok := p.build("model "+p.Model, inv); ok {
		n := 0
		for _, a := range c.Argv {
			if a == p.Model || strings.HasSuffix(a, "="+p.Model) {
				n++
			}
		}
		if n != 1 {
			p.errorf("model %q is %d times in argv %q", p.Model, n, c.Argv)
		}
	}
	for _, m := range []string{" ", "a b", "\t", p.Model + "\n", "-m", "--help"} {
		inv.Model = m
		p.refused(fmt.Sprintf("model %q", m), inv, agent.ErrModel)
	}
	if len(p.caps.Families) > 0 && p.Foreign != "" {
		inv.Model = p.Foreign
		p.refused("model "+p.Foreign, inv, agent.ErrModel)
	}
}

func checkEfforts(p *probe) {
	built := map[string]string{}
	for _, e := range append([]string{""}, p.caps.Efforts...) {
		inv := plain()
		inv.Effort = e
		if c, ok := p.build("effort "+e, inv); ok {
			how := fmt.Sprint(c.Argv, map[string]string(c.Env))
			if other, ok := built[how]; ok {
				p.errorf("efforts %q and %q are the same command", other, e)
			}
			built[how] = e
		}
	}
	inv := plain()
	inv.Effort = "agenttest-none"
	p.refused("an unknown effort", inv, agent.ErrArgument, agent.ErrUnsupported)
}

func checkUserArgs(p *probe) {
	inv := plain()
	inv.Args = p.Args
	if c, ok := p.build("user arguments", inv); ok {
		at := -1
		for i := 0; i+len(p.Args) <= len(c.Argv); i++ {
			if slices.Equal(c.Argv[i:i+len(p.Args)], p.Args) {
				at = i
			}
		}
		switch {
		case at < 1:
			p.errorf("user arguments %q are not in argv %q in one piece", p.Args, c.Argv)
		case slices.Contains(c.Argv[:at], "--"):
			p.errorf("user arguments stand behind --: they would be text")
		}
	}
	bad := [][]string{{"--"}, {"a\x00"}, {strings.Repeat("a", agent.MaxArg)}}
	for flag := range p.caps.Reserved {
		bad = append(bad, []string{flag}, []string{flag + "=x"})
	}
	for _, args := range bad {
		inv.Args = args
		p.refused(fmt.Sprintf("user argument %.40q", args[0]), inv, agent.ErrArgument)
	}
}

func checkEnvironment(p *probe) {
	for _, uid := range []int{0, 1000} {
		p.Facts.UID = uid
		c, ok := p.build(fmt.Sprintf("user %d", uid), plain())
		if !ok {
			return
		}
		for _, v := range p.caps.Scrub {
			if !slices.Contains(c.Unset, v) {
				p.errorf("%s is to be removed always, and Unset does not name it", v)
			}
		}
		for v, value := range c.Env {
			if slices.Contains(c.Unset, v) {
				p.errorf("%s is set and removed", v)
			}
			if slices.Contains(p.caps.Credentials, v) && value != "" {
				p.errorf("%s is a credential: it is not the agent's to set", v)
			}
		}
		for _, v := range c.Unset {
			if v == "" || strings.ContainsAny(v, "=\x00") {
				p.errorf("variable name %q", v)
			}
			if slices.Contains(p.caps.Credentials, v) {
				p.errorf("%s is a credential, and removed: nobody could log in by it", v)
			}
		}
	}
}

// checkErrors looks at how it refuses: on one line, with the agent's name and
// what to do, without the prompt.
func checkErrors(p *probe) {
	const canary = "canary-7c1f"
	bad := plain()
	bad.Prompt, bad.Mode = canary, "agenttest-none"
	nul := plain()
	nul.Prompt = canary + "\x00"
	big := plain()
	big.Args = []string{strings.Repeat(canary, agent.MaxArg/len(canary)+1)}
	for _, inv := range []agent.Invocation{bad, nul, big} {
		_, err := p.agent.Command(inv, p.Facts)
		var e *agent.Error
		if !errors.As(err, &e) {
			p.errorf("%v is no *agent.Error", err)
			continue
		}
		s := err.Error()
		if strings.ContainsAny(s, "\r\n") || !strings.Contains(s, p.agent.Name()) || e.Hint == "" || len(s) > 600 {
			p.errorf("an error is one line with the agent's name and a hint: %.300q", s)
		}
		if strings.Contains(s, canary) {
			p.errorf("the error shows what was asked: %.300q", s)
		}
	}
}

func checkVersion(p *probe) {
	v, ok := p.agent.(agent.Prober)
	if !ok {
		return
	}
	if len(v.VersionArgs()) == 0 {
		p.errorf("no arguments to ask for the version: the CLI itself would start")
	}
	for _, out := range []string{"", "\x00", "not a version", "Error: cannot find module 'x'\nNode.js v20.20.2\n", strings.Repeat("9", 1<<20)} {
		if got := v.ParseVersion([]byte(out)); got != "" {
			p.errorf("%.60q is taken for version %.60q", out, got)
		}
	}
}
