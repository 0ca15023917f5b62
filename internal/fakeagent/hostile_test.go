//go:build unix

package fakeagent

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"
)

// alive says whether the process runs (a zombie does not).
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + itoa(pid) + "/stat")
	if err != nil {
		return syscall.Kill(pid, 0) == nil
	}
	_, after, _ := bytes.Cut(stat, []byte(") "))
	return !bytes.HasPrefix(after, []byte("Z"))
}

func itoa(n int) string { return string(marshal(n)) }

// endAll ends what the test's agent left behind; by pid, and only those.
func (r *run) endAll(t *testing.T) []Proc {
	t.Helper()
	all, err := Procs(r.pids())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		syscall.Kill(p.PID, syscall.SIGKILL)
	}
	for _, p := range all {
		poll(t, "the left process is gone", func() bool { return !alive(p.PID) })
	}
	return all
}

func TestSpawnOutlives(t *testing.T) {
	for _, how := range []string{"child", "setsid", "double_fork", "env_i", "busy", "tool"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := command(t, "claude", Scenario{Steps: []Step{{Do: "spawn", How: how, Ignore: true}, {Do: "result"}}}).run(t)
			defer r.endAll(t)
			procs, err := Procs(r.pids())
			if err != nil || len(procs) != 1 {
				t.Fatalf("procs: %v, %v", procs, err)
			}
			p := procs[0]
			if !alive(p.PID) {
				t.Fatal("it did not outlive the agent")
			}
			if err := syscall.Kill(p.PID, syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			sid, err := getsid(p.PID)
			if err != nil {
				t.Fatal(err)
			}
			own, _ := getsid(0)
			if shares := sid == own; shares != (how == "child") {
				t.Errorf("shares the agent's session: %v", shares)
			}
			if env, err := os.ReadFile("/proc/" + itoa(p.PID) + "/environ"); err == nil {
				if marked := bytes.Contains(env, []byte(EnvPids)); marked == (how == "env_i") {
					t.Errorf("has the agent's environment: %v", marked)
				}
			}
			if !alive(p.PID) {
				t.Error("TERM ended it")
			}
		})
	}
}

func TestSpawnHoldsStdout(t *testing.T) {
	t.Parallel()
	r := command(t, "claude", Scenario{Steps: []Step{{Do: "spawn", How: "hold_stdout"}, {Do: "result"}}})
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	r.cmd.Stdout = w
	if err := r.cmd.Run(); err != nil { // a file: Run waits for the process alone
		t.Fatal(err)
	}
	w.Close()
	// Nobody but the holder has the other end now. Without it the end of file
	// would be there at once, on the slowest machine too.
	out.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := io.Copy(io.Discard, out); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("nobody holds stdout: %v", err)
	}
	r.endAll(t)
	out.SetReadDeadline(time.Time{})
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Error(err)
	}
}

func TestSpawnTreeAndMany(t *testing.T) {
	t.Parallel()
	r := command(t, "claude", Scenario{Steps: []Step{
		{Do: "spawn", How: "many", Count: 20}, {Do: "spawn", How: "tree", Count: 120}, {Do: "result"},
	}}).run(t)
	all, err := Procs(r.pids())
	if err != nil {
		t.Fatal(err)
	}
	sessions := map[int]bool{}
	n := 0
	for _, p := range all {
		if alive(p.PID) {
			n++
		}
		if sid, err := getsid(p.PID); err == nil {
			sessions[sid] = true
		}
	}
	if r.endAll(t); n != 120 || len(sessions) != 3 {
		t.Errorf("%d processes in %d sessions, want 120 in 3", n, len(sessions))
	}
}

func TestLaterRuns(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "made")
	r := command(t, "claude", Scenario{Steps: []Step{
		{Do: "spawn", How: "later", Argv: []string{"/bin/sh", "-c", "echo x >" + quote(file)}}, {Do: "result"},
	}}).run(t)
	poll(t, "the daemon worked", func() bool { b, _ := os.ReadFile(file); return len(b) > 0 })
	r.endAll(t)
}

// ready runs steps that end in a hang, and returns when the agent hangs.
func ready(t *testing.T, name string, steps ...Step) *run {
	t.Helper()
	up := filepath.Join(t.TempDir(), "up")
	r := command(t, name, Scenario{Steps: append(steps, Step{Do: "touch", Path: up}, Step{Do: "hang"})})
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.cmd.Process.Kill() })
	poll(t, "the agent is up", func() bool { _, err := os.Stat(up); return err == nil })
	return r
}

func TestSignals(t *testing.T) {
	text := Step{Do: "text", Text: "hi"}
	for _, c := range []struct {
		name, agent string
		sig         syscall.Signal
		steps       []Step
		code        int // -n: died of signal n
		tail        string
	}{
		{"claude term", "claude", syscall.SIGTERM, []Step{text}, 143, ""},
		{"claude hup", "claude", syscall.SIGHUP, []Step{text}, 129, ""},
		{"claude int", "claude", syscall.SIGINT, []Step{text}, 0, `"result_index":0`},
		{"codex term", "codex", syscall.SIGTERM, []Step{text}, -15, ""},
		{"codex int", "codex", syscall.SIGINT, []Step{text}, 1, ""},
		{"pi term", "pi", syscall.SIGTERM, []Step{text}, 143, ""},
		{"pi int", "pi", syscall.SIGINT, []Step{text}, -2, ""},
		{"tail", "claude", syscall.SIGTERM, []Step{{Do: "on_term", Text: "last words\n"}}, 143, "last words"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := ready(t, c.agent, c.steps...)
			r.cmd.Process.Signal(c.sig)
			r.cmd.Wait()
			code := r.cmd.ProcessState.ExitCode()
			if ws := r.cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
				code = -int(ws.Signal())
			}
			tail := r.stdout.String()
			if code != c.code || !strings.Contains(tail, c.tail) {
				t.Errorf("code %d, output %q; want %d, %q", code, tail, c.code, c.tail)
			}
		})
	}
}

func TestIgnoresTerm(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	up := filepath.Join(t.TempDir(), "up")
	r := command(t, "claude", Scenario{Steps: []Step{{Do: "ignore_term", Text: "no\n"}, {Do: "touch", Path: up}, {Do: "hang"}}})
	f, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r.cmd.Stdout = f
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer r.cmd.Process.Kill()
	poll(t, "the agent is up", func() bool { _, err := os.Stat(up); return err == nil })
	for n := range 3 { // one after the other: the runtime merges equal signals, and hands HUP out first
		r.cmd.Process.Signal(syscall.SIGTERM)
		poll(t, "TERM was seen", func() bool { b, _ := os.ReadFile(out); return len(b) == 3*(n+1) })
	}
	r.cmd.Process.Signal(syscall.SIGHUP)
	r.cmd.Wait()
	if code := r.cmd.ProcessState.ExitCode(); code != 129 {
		t.Errorf("code %d: TERM ended it", code)
	}
}

// TestTermEndsTool: claude and pi take the running tool with them.
func TestTermEndsTool(t *testing.T) {
	for _, name := range []string{"claude", "codex", "pi", "grok", "copilot"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := command(t, name, Scenario{})
			live := childSpec{Role: "live", Pids: r.pids()}
			r.cmd.Env = append(r.cmd.Env, Scenario{Lax: true, Steps: []Step{{Do: "bash", Argv: live.argv("{self}")}}}.Env())
			if err := r.cmd.Start(); err != nil {
				t.Fatal(err)
			}
			poll(t, "the tool is up", func() bool { return countProcs(r.pids()) == 1 })
			r.cmd.Process.Signal(syscall.SIGTERM)
			r.cmd.Wait()
			p, _ := Procs(r.pids())
			poll(t, "the tool is gone", func() bool { return !alive(p[0].PID) })
		})
	}
}

func TestDiesBySignal(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSEGV, syscall.SIGABRT} {
		r := command(t, "claude", Scenario{Steps: []Step{{Do: "text", Text: "x"}, {Do: "signal", Signal: map[syscall.Signal]string{9: "SIGKILL", 11: "SIGSEGV", 6: "SIGABRT"}[sig]}}})
		r.cmd.Run()
		if ws := r.cmd.ProcessState.Sys().(syscall.WaitStatus); !ws.Signaled() || ws.Signal() != sig {
			t.Errorf("%v: %v, %s", sig, r.cmd.ProcessState, r.stderr.String())
		}
	}
}

func TestHostileBytes(t *testing.T) {
	t.Parallel()
	out := func(steps ...Step) []byte {
		return bytes.Clone(command(t, "claude", Scenario{Steps: steps}).run(t).stdout.Bytes())
	}
	if b := out(Step{Do: "long_line", Bytes: 3 << 20}); len(b) != 3<<20 || bytes.Count(b, []byte("\n")) != 1 || !json.Valid(b) {
		t.Errorf("long_line: %d bytes, %d lines", len(b), bytes.Count(b, []byte("\n")))
	}
	if b := out(Step{Do: "invalid_utf8"}); utf8.Valid(b) || !bytes.Contains(b, []byte("\xe2\x80\xa8")) {
		t.Errorf("invalid_utf8: %q", b)
	}
	if b := out(Step{Do: "nul"}); bytes.Count(b, []byte{0}) != 3 {
		t.Errorf("nul: %q", b)
	}
	if b := out(Step{Do: "half_line"}); bytes.Contains(b, []byte("\n")) || len(b) == 0 {
		t.Errorf("half_line: %q", b)
	}
	lens := map[int]int{}
	for line := range bytes.Lines(out(Step{Do: "chunks"})) {
		lens[len(line)]++
	}
	if lens[1<<16-1] != 3 || lens[1<<16] != 3 || lens[1<<16+1] != 3 {
		t.Errorf("chunks: %v", lens)
	}
	if b := out(); !bytes.Contains(b, []byte("Hello")) {
		t.Errorf("without steps: %q", b)
	}
	if b := out(Step{Do: "exit"}); len(b) != 0 {
		t.Errorf("exit at once: %q", b)
	}
}

func TestFlood(t *testing.T) {
	for _, name := range []string{"claude", "codex", "pi", "grok", "copilot"} {
		r := command(t, name, Scenario{Steps: []Step{{Do: "session"}, {Do: "flood", Bytes: 1 << 20}, {Do: "result"}}}).run(t)
		n, ids := 0, map[string]bool{}
		for line := range bytes.Lines(r.stdout.Bytes()) {
			if !json.Valid(line) {
				t.Fatalf("%s: %.300q", name, line)
			}
			if len(line) == 4096 {
				n++
			}
			for _, key := range []string{`"id":"msg_fill`, `"responseId":"chatcmpl_fill`, `"messageId":"msg_fill`} {
				if i := bytes.Index(line, []byte(key)); i >= 0 {
					ids[string(line[i:i+len(key)+10])] = true
				}
			}
		}
		if n != 256 {
			t.Errorf("%s: %d lines of 4096 bytes, want 256", name, n)
		}
		if want := 5; name != "codex" && name != "copilot" && len(ids) != want {
			t.Errorf("%s: %d different requests told their usage, want %d", name, len(ids), want)
		}
		if total := map[string]string{"claude": `"input_tokens":500`, "codex": `"input_tokens":500`}[name]; !strings.Contains(r.stdout.String(), total) {
			t.Errorf("%s: the end does not sum it up", name)
		}
	}
}

func TestGitSteps(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	git := func(dir string, args ...string) string {
		cmd := exec.Command("git", append([]string{"-c", "user.name=T", "-c", "user.email=t@example.invalid", "-c", "init.defaultBranch=main"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	mainDir, tree := filepath.Join(root, "main"), filepath.Join(root, "tree")
	git(root, "init", "-q", "--bare", "remote.git")
	git(root, "clone", "-q", "remote.git", "main")
	git(mainDir, "commit", "-q", "--allow-empty", "-m", "first")
	git(mainDir, "worktree", "add", "-q", tree, "-b", "work")
	r := command(t, "claude", Scenario{Steps: []Step{
		{Do: "commit", Path: "new.txt", Text: "done"},
		{Do: "branch", Text: "extra"},
		{Do: "push"},
		{Do: "write_main", Path: "leak.txt", Text: "leak"},
		{Do: "result"},
	}})
	r.cmd.Dir = tree
	r.run(t)
	if got := git(tree, "log", "-1", "--format=%s", "work"); got != "done" {
		t.Errorf("commit: %q\n%s", got, r.stdout.String())
	}
	git(tree, "rev-parse", "extra")
	git(filepath.Join(root, "remote.git"), "rev-parse", "work")
	if b, _ := os.ReadFile(filepath.Join(mainDir, "leak.txt")); string(b) != "leak" {
		t.Errorf("write_main: %q", b)
	}
	if !strings.Contains(r.stdout.String(), `"command":"git push origin HEAD"`) {
		t.Error("the push is not shown as a tool call")
	}
}
