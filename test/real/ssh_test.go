//go:build real && linux

package real

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/internal/fakemodel"
	"github.com/rein-run/rein/test/sshd"
)

// onSSH is the command line of `rein run --on ssh://…` for pi, as a user has it:
// everything about the server is in ~/.ssh/config.
type onSSH struct {
	*stage
	server *sshd.Server
	report string
	out    bytes.Buffer
}

func newOnSSH(t *testing.T, turns ...fakemodel.Turn) *onSSH {
	t.Helper()
	var pi subject
	for _, s := range subjects {
		if s.name == "pi" {
			pi = s
		}
	}
	server := sshd.Start(t, nil)
	g := &onSSH{stage: newStage(t, pi, fakemodel.Script{Turns: turns}), server: server}
	g.dir = server.Place("work")
	g.report = filepath.Join(t.TempDir(), "report.json")
	return g
}

// command runs on the server, whose directory of work is this machine's too.
func (g *onSSH) command(args ...string) *exec.Cmd {
	g.t.Helper()
	home := g.t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, ".ssh"), 0o700); err != nil {
		g.t.Fatal(err)
	}
	config := "Host build\n HostName 127.0.0.1\n Port " + g.server.Port + "\n User " + g.server.User +
		"\n IdentityFile " + g.server.Key + "\n UserKnownHostsFile " + g.server.KnownHosts + "\n"
	if err := os.WriteFile(filepath.Join(home, ".ssh", "config"), []byte(config), 0o600); err != nil {
		g.t.Fatal(err)
	}
	all := append([]string{"--state-dir", g.store.Dir, "run", "--on", "ssh://build" + g.dir, "--agent", "pi", "--report", g.report, "--model", g.task.Model}, args...)
	for k, v := range g.task.Env {
		all = append(all, "--env", k+"="+v)
	}
	for _, a := range g.task.Args {
		all = append(all, "--agent-arg="+a)
	}
	cmd := exec.Command(filepath.Join(g.bin, "rein"), append(all, g.task.Prompt)...)
	// Nothing of this process's environment may be needed there.
	cmd.Env = []string{"HOME=" + home, "PATH=/nowhere"}
	cmd.Stdout, cmd.Stderr = &g.out, &g.out
	return cmd
}

// done is the report of a command that was run.
func (g *onSSH) done(cmd *exec.Cmd, code int) *rein.Report {
	g.t.Helper()
	cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != code {
		g.t.Errorf("exit %d, want %d: %s", got, code, g.out.String())
	}
	rep := new(rein.Report)
	b, err := os.ReadFile(g.report)
	if err != nil || json.Unmarshal(b, rep) != nil {
		g.t.Fatalf("%v: %s: %s", err, b, g.out.String())
	}
	if want := "ssh://" + g.server.User + "@" + g.server.Addr(); rep.Host != want {
		g.t.Errorf("host %s, want %s", rep.Host, want)
	}
	return rep
}

func (g *onSSH) git(args ...string) string {
	g.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", g.dir, "-c", "user.name=f", "-c", "user.email=f@example.invalid"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		g.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return string(out)
}

func (g *onSSH) start(cmd *exec.Cmd) *exec.Cmd {
	g.t.Helper()
	if err := cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { cmd.Process.Kill() })
	return cmd
}

// A real CLI on another machine: files are written there, the gate asks through
// the link, a refused command does not run, what a tool leaves is ended, and
// the boundary is looked at there.
func TestReinOnSSH(t *testing.T) {
	command, n := every()
	var g *onSSH
	g = newOnSSH(t,
		fakemodel.Turn{Text: "I will write.", Tools: []fakemodel.Call{piWrite("made.txt", "made\n")}},
		fakemodel.Turn{Text: "And run.", Tools: []fakemodel.Call{piShell("echo ran > ran.txt; " + command)}},
		fakemodel.Turn{Text: "And commit.", Tools: []fakemodel.Call{piShell("git add made.txt && git commit -m no")}},
		fakemodel.Turn{Text: "All is done."},
	)
	g.git("init", "-q", "-b", "main")
	g.git("commit", "-q", "--allow-empty", "-m", "one")
	before := g.git("rev-parse", "HEAD")
	rep := g.done(g.start(g.command()), 0)
	if !rep.OK || rep.Answer != "All is done." || rep.AgentVersion != "1.6.0" || rep.Containment == driver.ByMarker || rep.Dir != g.dir {
		t.Errorf("ok %v, answer %q, version %q, containment %s, dir %s: %s", rep.OK, rep.Answer, rep.AgentVersion, rep.Containment, rep.Dir, g.out.String())
	}
	for name, want := range map[string]string{"made.txt": "made\n", "ran.txt": "ran\n"} {
		if b, err := os.ReadFile(filepath.Join(g.dir, name)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if !rep.Gate.Armed || rep.Gate.Asked < 3 || rep.Gate.Refused != 1 {
		t.Errorf("gate %+v", rep.Gate)
	}
	if !rep.Boundary.Checked || !rep.Boundary.Clean || g.git("rev-parse", "HEAD") != before {
		t.Errorf("boundary %+v", rep.Boundary)
	}
	if left := alive(g.pids(n)); len(left) > 0 || len(rep.Leftovers) == 0 {
		t.Errorf("alive %v, leftovers %v", left, rep.Leftovers)
	}
	if told := g.model.Told(); rep.Usage.InputTokens != told.Input || rep.Usage.OutputTokens != told.Output {
		t.Errorf("usage %+v, the model told %+v", rep.Usage, told)
	}
	if seen, err := os.ReadDir("/tmp/" + rep.ID); err == nil {
		t.Errorf("left behind there: %v", seen)
	}

	// What gets past the gate is found, there.
	g = newOnSSH(t,
		fakemodel.Turn{Text: "x", Tools: []fakemodel.Call{piWrite("sly.sh", "g=git; $g -c core.hooksPath=/dev/null -c user.name=f -c user.email=f@example.invalid commit -q --allow-empty -m two\n")}},
		fakemodel.Turn{Text: "y", Tools: []fakemodel.Call{piShell("sh sly.sh")}},
		fakemodel.Turn{Text: "Done."},
	)
	g.git("init", "-q", "-b", "main")
	g.git("commit", "-q", "--allow-empty", "-m", "one")
	rep = g.done(g.start(g.command()), rein.ExitBoundary)
	if len(rep.Boundary.Changes) == 0 || rep.Boundary.Changes[0].What != "committed" {
		t.Errorf("boundary %+v", rep.Boundary)
	}
}

// The server dies in the middle of a tool call: lost, with what came until then,
// and nothing is left running there.
func TestReinLosesSSH(t *testing.T) {
	command, n := every()
	g := newOnSSH(t,
		fakemodel.Turn{Text: "This is my last line.", Tools: []fakemodel.Call{piShell(command + `; python3 -c 'import os, time; open("pids", "a").write(str(os.getpid()) + "\n"); time.sleep(3600)'`)}},
		fakemodel.Turn{Text: "never"},
	)
	cmd := g.start(g.command())
	pids := g.pids(n + 1)
	g.server.Kill()
	rep := g.done(cmd, rein.ExitLost)
	if rep.End.Kind != rein.Lost || rep.OK || !strings.Contains(rep.Failure, "connection") || rep.Containment != "" || !strings.Contains(g.out.String(), "what is left running is not known") {
		t.Errorf("end %+v: %s: %s", rep.End, rep.Failure, g.out.String())
	}
	if b, err := os.ReadFile(rep.Transcript.Path); err != nil || !strings.Contains(string(b), "This is my last line.") {
		t.Errorf("the last line is lost: %v", err)
	}
	for end := time.Now().Add(patience); len(alive(pids)) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("alive: %v", alive(pids))
		}
	}
}
