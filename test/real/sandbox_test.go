//go:build real && linux

package real

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/internal/fakemodel"
)

// boxed is a stage whose run is in a sandbox and whose gate lets all through:
// what is refused then, the kernel refuses. The directory is a linked working
// tree or, with linked false, the main one.
func boxed(t *testing.T, s subject, linked bool) (g *stage, repo string) {
	t.Helper()
	g = newStage(t, s, fakemodel.Script{})
	remote := g.withRemote()
	repo = g.dir
	if linked {
		tree := filepath.Join(t.TempDir(), "tree")
		git(t, repo, "worktree", "add", "-q", "-b", "side", tree)
		g.dir, g.task.Dir = tree, tree
	}
	git(t, repo, "push", "-q", remote, "main:seed")
	g.task.Sandbox = true
	return g, repo
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// The whole scripted task, in both kinds of working trees.
func TestSandboxDoesTheTask(t *testing.T) {
	for _, linked := range []bool{false, true} {
		eachBoxed(t, func(t *testing.T, s subject) {
			g, repo := boxed(t, s, linked)
			if err := g.model.Load(fakemodel.Script{Turns: []fakemodel.Turn{
				{Text: "I will write.", Tools: []fakemodel.Call{s.write(filepath.Join(g.dir, "made.txt"), "made\n")}},
				{Text: "And run.", Tools: []fakemodel.Call{s.shell("echo ran > ran.txt && git add ran.txt && git status --short && mktemp")}},
				{Text: "All is done."},
			}}); err != nil {
				t.Fatal(err)
			}
			rep := g.do()
			if !rep.OK || rep.Answer != "All is done." {
				t.Fatalf("ok %v, end %+v, findings %+v: %s", rep.OK, rep.End, rep.Findings, says(rep))
			}
			if readAll(t, filepath.Join(g.dir, "made.txt")) != "made\n" || readAll(t, filepath.Join(g.dir, "ran.txt")) != "ran\n" {
				t.Error("the files are not there")
			}
			if rep.Sandbox.Kind != rein.SandboxBwrap || rep.Sandbox.Network != rein.NetworkModel || len(rep.Sandbox.Reach) == 0 || !rep.Gate.Armed || rep.Gate.Asked < 2 {
				t.Errorf("%+v, gate %+v", rep.Sandbox, rep.Gate)
			}
			if _, err := os.Lstat(filepath.Join(repo, ".git", "commondir")); err == nil {
				t.Error("commondir was left")
			}
			t.Logf("%v, %d leftovers, asked in vain: %v", rep.EndedAt.Sub(rep.StartedAt), len(rep.Leftovers), rep.Sandbox.Refused)

			// The state can be written: the session goes on.
			if err := g.model.Load(fakemodel.Script{Turns: []fakemodel.Turn{{Text: "again"}}}); err != nil {
				t.Fatal(err)
			}
			g.task.Session.Resume = rep.SessionID
			if second := g.do(); !second.OK || second.SessionID != rep.SessionID {
				t.Errorf("resumed: session %q after %q: %s", second.SessionID, rep.SessionID, says(second))
			}
		})
	}
}

// attacks is what a script of the agent's tries, which its gate cannot read and
// whose shell has none of the blocks: each line by itself. {…} is filled in.
const attacks = `
git commit -q --allow-empty -m x
git push -q {remote} HEAD:refs/heads/stolen
git update-ref refs/heads/new HEAD
git branch -f main HEAD~0 && git tag v9
git symbolic-ref HEAD refs/heads/new
git config user.name x
git worktree add -q --detach {outside}/wt
d=$(git rev-parse --git-common-dir); mkdir -p $d/hooks && echo x > $d/hooks/post-checkout
d=$(git rev-parse --git-common-dir); git rev-parse HEAD > $d/refs/heads/new
d=$(git rev-parse --git-common-dir); echo /elsewhere > $d/commondir
d=$(git rev-parse --git-dir); echo "ref: refs/heads/new" > $d/HEAD
d=$(git rev-parse --git-common-dir); mv $d $d.2 && cp -r $d.2 $d
d=$(git rev-parse --git-common-dir); mount -o remount,bind,rw $d/refs && git branch new
mount -o remount,bind,rw / && echo x > {outside}/x
unshare -Urm sh -c "mount -o remount,bind,rw / && echo x > {outside}/x"
echo x > {outside}/x
echo x > $HOME/x
echo x > /var/lib/rein-escaped
echo x > {fixed}
ls {state}/leases
nsenter -t 1 -m true
kill -0 {pid}
bash -c "exec 3<>/dev/tcp/127.0.0.1/{port}"
curl -sSf --noproxy "" http://127.0.0.1:{port}/
curl -sSf --max-time 5 http://192.0.2.1/
curl -sSf --max-time 5 --unix-socket {control} http://x/
`

// fixed is what a CLI would start programs from the next time.
func fixed(s subject) string {
	name, _, _ := strings.Cut(s.name, "-")
	return map[string]string{"claude": "$HOME/.claude/settings.json", "codex": "$HOME/.codex/config.toml", "pi": "$HOME/.pi/agent/extensions/x.js"}[name]
}

// attack runs them by the CLI's own shell tool, and returns what went through.
func (g *stage) attack(remote string, unheld func(line string) bool) (*rein.Report, []string) {
	t := g.t
	t.Helper()
	outside := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	g.task.ID = "attacked-" + strings.ToLower(filepath.Base(outside)) + "-" + g.s.name
	g.task.ID = strings.ReplaceAll(g.task.ID, ".", "-")
	fill := strings.NewReplacer("{remote}", remote, "{outside}", outside, "{port}", port, "{fixed}", fixed(g.s), "{state}", g.store.Dir,
		"{pid}", fmt.Sprint(os.Getpid()), "{control}", filepath.Join(g.store.RunDir(g.task.ID), "socket"))
	var script strings.Builder
	script.WriteString("unset GIT_CONFIG_COUNT\n")
	for _, line := range strings.Split(strings.TrimSpace(attacks), "\n") {
		if !unheld(line) {
			line = fill.Replace(line)
			fmt.Fprintf(&script, "if ( %s ) >out 2>&1; then echo 'through: %s'; else sed 's/^/refused: /' out | tail -1; fi\n", line, strings.ReplaceAll(line, "'", "\""))
		}
	}
	if err := os.WriteFile(filepath.Join(g.dir, "work.sh"), []byte(script.String()+"echo all done\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := g.model.Load(fakemodel.Script{Turns: []fakemodel.Turn{
		{Tools: []fakemodel.Call{g.s.shell("sh work.sh > results 2>&1; true")}}, {Text: "Done."},
	}}); err != nil {
		t.Fatal(err)
	}
	rep := g.do()
	results := readAll(t, filepath.Join(g.dir, "results"))
	if !strings.HasSuffix(results, "all done\n") {
		t.Fatalf("the script did not end: %q, %s", results, says(rep))
	}
	var through []string
	for line := range strings.Lines(results) {
		if strings.HasPrefix(line, "through: ") {
			through = append(through, line)
		}
	}
	if os.Remove("/var/lib/rein-escaped") == nil {
		t.Error("outside there is a file")
	}
	if entries, _ := os.ReadDir(outside); len(entries) > 0 {
		t.Errorf("outside there is %v", entries)
	}
	return rep, through
}

// With the gate blind and the blocks gone, the kernel refuses.
func TestSandboxRefuses(t *testing.T) {
	for _, linked := range []bool{false, true} {
		// The shell of both pi is the same.
		eachBoxedOf(t, func(s subject) bool { return !linked || s.name != "pi-0.73.1" }, func(t *testing.T, s subject) {
			g, repo := boxed(t, s, linked)
			remote := git(t, repo, "remote", "get-url", "origin")
			before := git(t, repo, "for-each-ref") + pushed(t, remote)
			rep, through := g.attack(remote, func(string) bool { return false })
			for _, line := range through {
				t.Error(line)
			}
			if after := git(t, repo, "for-each-ref") + pushed(t, remote); after != before {
				t.Errorf("references moved\n%s\n%s", before, after)
			}
			if !rep.OK || !rep.Boundary.Clean || len(rep.Sandbox.Refused) != 2 {
				t.Errorf("ok %v, %+v, asked in vain %v: %s", rep.OK, rep.Boundary.Changes, rep.Sandbox.Refused, says(rep))
			}
			git(t, repo, "fsck")
		})
	}
}

// A read-only run writes nothing at all, a run with commits its own branch.
func TestSandboxModes(t *testing.T) {
	eachBoxed(t, func(t *testing.T, s subject) {
		if s.name == "codex" || s.name == "claude" { // pi has no shell then, and claude asks before it writes
			g, _ := boxed(t, s, true)
			g.task.Mode = agent.ReadOnly
			if err := g.model.Load(fakemodel.Script{Turns: []fakemodel.Turn{{Tools: []fakemodel.Call{s.shell("ls -d .; echo x > made.txt")}}, {Text: "Done."}}}); err != nil {
				t.Fatal(err)
			}
			if rep := g.do(); !rep.OK || g.ran("made.txt") {
				t.Errorf("read-only: ok %v, made %v: %s", rep.OK, g.ran("made.txt"), says(rep))
			}
		}
		if s.name != "pi" {
			return
		}
		g, repo := boxed(t, s, true)
		g.task.Guard.Commits = true
		if err := g.model.Load(fakemodel.Script{Turns: []fakemodel.Turn{
			{Tools: []fakemodel.Call{s.shell("sh t.sh")}}, {Text: "Done."},
		}}); err != nil {
			t.Fatal(err)
		}
		script := "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m two\nunset GIT_CONFIG_COUNT\ngit tag x && touch tagged\n"
		if err := os.WriteFile(filepath.Join(g.dir, "t.sh"), []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
		if rep := g.do(); !rep.OK || git(t, repo, "log", "--format=%s", "-1", "side") != "two" || g.ran("tagged") {
			t.Errorf("commits: ok %v, tagged %v: %s", rep.OK, g.ran("tagged"), says(rep))
		}
	})
}

// inRun are the processes that carry the marker of a run: pids in a sandbox are
// others than outside.
func inRun(id string) (n int) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range all {
		if b, err := os.ReadFile(f); err == nil && bytes.Contains(b, []byte("REIN_RUN=")) && bytes.Contains(b, []byte(id)) {
			n++
		}
	}
	return n
}

func gone(t *testing.T, id string) {
	t.Helper()
	for end := time.Now().Add(patience); inRun(id) > 0; <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d processes are left", inRun(id))
		}
	}
}

// A kill reaches all, whatever namespace they are in; so does the end of the
// agent, and the death of its rein.
func TestSandboxLeavesNobody(t *testing.T) {
	for _, way := range []string{"cancel", "exit", "rein dies"} {
		t.Run(way, func(t *testing.T) {
			// What happens is the keeper's and bubblewrap's: one CLI for the one, one pi for both.
			eachBoxedOf(t, func(s subject) bool { return s.name != "pi-0.73.1" && (way != "rein dies" || s.name == "codex") }, func(t *testing.T, s subject) {
				command, n := every()
				last := "; sleep 3600"
				if way == "exit" {
					last = ""
				}
				g, _ := boxed(t, s, true)
				g.task.ID = "left-" + s.name + "-" + strings.ReplaceAll(way, " ", "-")
				if err := g.model.Load(fakemodel.Script{Turns: []fakemodel.Turn{
					{Text: "This is my last line.", Tools: []fakemodel.Call{s.shell(command + last)}}, {Text: "Bye."},
				}}); err != nil {
					t.Fatal(err)
				}
				if way == "rein dies" {
					cmd := g.command()
					if err := cmd.Start(); err != nil {
						t.Fatal(err)
					}
					g.pids(n)
					cmd.Process.Kill()
					cmd.Wait()
					gone(t, g.task.ID)
					return
				}
				r := g.start()
				g.pids(n)
				want := rein.End{Kind: rein.Exited}
				if way == "cancel" {
					if inRun(r.ID()) < n {
						t.Errorf("%d processes with the marker", inRun(r.ID()))
					}
					r.Cancel(rein.CancelInterrupt)
					want = rein.End{Kind: rein.Cancelled, Detail: rein.CancelInterrupt}
				}
				rep := g.wait(r)
				if left := inRun(r.ID()); left > 0 {
					t.Errorf("%d processes are left", left)
				}
				if rep.End != want || len(rep.Survivors) > 0 {
					t.Errorf("end %+v, survivors %v: %s", rep.End, rep.Survivors, says(rep))
				}
				if b, err := os.ReadFile(rep.Transcript.Path); err != nil || !strings.Contains(string(b), "This is my last line.") {
					t.Errorf("the last line is lost: %v", err)
				}
			})
		})
	}
}

// command is `rein run` for the stage.
func (g *stage) command() *exec.Cmd {
	args := []string{"--state-dir", g.store.Dir, "run", "--id", g.task.ID, "--agent", g.task.Agent, "--agent-exe", g.opts.Exes[g.task.Agent], "-C", g.dir}
	if g.task.Sandbox {
		args = append(args, "--sandbox")
	}
	for k, v := range g.task.Env {
		args = append(args, "--env", k+"="+v)
	}
	for _, a := range g.task.Args {
		args = append(args, "--agent-arg="+a)
	}
	if g.task.Model != "" {
		args = append(args, "--model", g.task.Model)
	}
	return exec.Command(filepath.Join(g.bin, "rein"), append(args, g.task.Prompt)...)
}

// A model that is not on loopback is reached by the proxy, by every CLI's own
// client.
func TestSandboxModelElsewhere(t *testing.T) {
	if os.Getenv(isolated) == "" {
		t.Fatal("it needs a network namespace of its own, to have an address there: run it as root")
	}
	const host = "10.77.0.1"
	if out, err := exec.Command("ip", "address", "replace", host+"/32", "dev", "lo").CombinedOutput(); err != nil {
		t.Fatalf("ip (apt-get install iproute2): %v: %s", err, out)
	}
	eachBoxed(t, func(t *testing.T, s subject) {
		g, _ := boxed(t, s, true)
		l, err := net.Listen("tcp", host+":0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		here := strings.TrimPrefix(g.model.URL(), "http://")
		go forward(l, here)
		there := l.Addr().String()
		g.task.Env["NO_PROXY"] += "," + host // the proxy of the user's, which nobody serves
		for k, v := range g.task.Env {
			g.task.Env[k] = strings.ReplaceAll(v, here, there)
		}
		home := g.task.Env["HOME"]
		for _, name := range []string{".codex/config.toml", ".pi/agent/models.json"} {
			file := filepath.Join(home, name)
			if b, err := os.ReadFile(file); err == nil {
				if err := os.WriteFile(file, bytes.ReplaceAll(b, []byte(here), []byte(there)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := g.model.Load(fakemodel.Script{Turns: []fakemodel.Turn{{Tools: []fakemodel.Call{s.shell("echo x > made.txt")}}, {Text: "Done."}}}); err != nil {
			t.Fatal(err)
		}
		if rep := g.do(); !rep.OK || !g.ran("made.txt") || strings.Join(rep.Sandbox.Reach, " ") != there {
			t.Errorf("ok %v, %+v: %s", rep.OK, rep.Sandbox, says(rep))
		}
	})
}

func forward(l net.Listener, to string) {
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer in.Close()
			out, err := net.Dial("tcp", to)
			if err != nil {
				return
			}
			defer out.Close()
			go func() { io.Copy(out, in); out.(*net.TCPConn).CloseWrite() }()
			io.Copy(in, out)
		}()
	}
}

// Where bubblewrap cannot be used, Landlock holds what it can, and the report
// says what it cannot.
func TestSandboxLandlock(t *testing.T) {
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, "bwrap"), []byte("#!/bin/sh\necho 'setting up uid map: Permission denied' >&2; exit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", broken+":"+os.Getenv("PATH"))
	// Temporary files are open: all of the test is elsewhere.
	base := "/var/lib"
	if os.Geteuid() != 0 {
		base, _ = os.UserHomeDir()
	}
	elsewhere, err := os.MkdirTemp(base, "rein-landlock-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(elsewhere) })
	t.Setenv("TMPDIR", elsewhere)
	eachBoxed(t, func(t *testing.T, s subject) {
		g, repo := boxed(t, s, true)
		g.task.Unset = []string{"TMPDIR"}
		before := git(t, repo, "for-each-ref")
		rep, through := g.attack(git(t, repo, "remote", "get-url", "origin"), func(line string) bool {
			for _, what := range []string{"{fixed}", "{state}", "{control}", "$d/HEAD", "symbolic-ref HEAD"} { // see the gaps
				if strings.Contains(line, what) {
					return true
				}
			}
			return false
		})
		if after := git(t, repo, "for-each-ref"); after != before {
			t.Errorf("references moved\n%s\n%s", before, after)
		}
		for _, line := range through {
			t.Error(line)
		}
		gaps := strings.Join(rep.Sandbox.Gaps, "\n")
		if !rep.OK || rep.Sandbox.Kind != rein.SandboxLandlock || !strings.Contains(gaps, "Permission denied") || !strings.Contains(gaps, "nothing is hidden") || !rep.Gate.Armed || rep.Gate.Asked == 0 {
			t.Errorf("ok %v, %+v, gate %+v: %s", rep.OK, rep.Sandbox, rep.Gate, says(rep))
		}
		git(t, repo, "fsck")
	})
}

// Whatever of the sandbox is gone, the agent reaches nothing and the run comes
// to an honest end.
func TestSandboxFailsClosed(t *testing.T) {
	for _, what := range []string{"proxy", "program"} {
		t.Run(what, func(t *testing.T) {
			eachBoxedOf(t, func(s subject) bool { return s.name != "pi-0.73.1" }, func(t *testing.T, s subject) {
				g, _ := boxed(t, s, true)
				g.task.ID = "closed-" + what + "-" + s.name
				g.task.Clocks.Idle, g.task.Clocks.Total = 20*time.Second, 40*time.Second
				if err := g.model.Load(fakemodel.Script{Turns: []fakemodel.Turn{{Tools: []fakemodel.Call{s.shell("touch ran")}}, {Text: "Done."}}}); err != nil {
					t.Fatal(err)
				}
				if what == "program" {
					program := filepath.Join(t.TempDir(), "keeper")
					script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = inside ] && exit 1\nexec '%s' \"$@\"\n", filepath.Join(g.bin, "rein-keeper"))
					if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
						t.Fatal(err)
					}
					g.opts.Keeper = []string{program}
				}
				r := g.start()
				if what == "proxy" {
					os.Remove(filepath.Join(r.Dir(), "proxy"))
				}
				rep := g.wait(r)
				if rep.OK || len(g.model.Requests()) > 0 || g.ran("ran") {
					t.Errorf("ok %v, %d requests, ran %v: %s", rep.OK, len(g.model.Requests()), g.ran("ran"), says(rep))
				}
				if inRun(r.ID()) > 0 {
					t.Error("processes are left")
				}
				t.Logf("%+v: %s", rep.End, rep.Failure)
			})
		})
	}
}

// A task that cannot have a sandbox is refused, and leaves nothing.
func TestSandboxRefused(t *testing.T) {
	g, _ := boxed(t, subjects[0], false)
	g.task.Dir = g.task.Env["HOME"]
	if _, err := rein.Describe(context.Background(), g.task, &g.opts); err == nil || !strings.Contains(err.Error(), "--sandbox") {
		t.Errorf("the home directory: %v", err)
	}
	g.task.Dir = g.dir
	g.opts.Keeper = nil
	if _, err := rein.Describe(context.Background(), g.task, &g.opts); err == nil || !strings.Contains(err.Error(), "keeper") {
		t.Errorf("without a keeper: %v", err)
	}
}

// eachBoxed is each, for the agents that say what they need in a sandbox; the
// others are refused before the start.
func eachBoxed(t *testing.T, f func(*testing.T, subject)) {
	eachBoxedOf(t, func(subject) bool { return true }, f)
}

func eachBoxedOf(t *testing.T, of func(subject) bool, f func(*testing.T, subject)) {
	for _, s := range subjects {
		name, _, _ := strings.Cut(s.name, "-")
		a, err := rein.Agents().Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := a.(agent.Boxed); ok && of(s) {
			t.Run(s.name, func(t *testing.T) { f(t, s) })
		}
	}
}
