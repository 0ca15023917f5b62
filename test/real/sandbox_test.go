//go:build real && linux

package real

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rein-run/rein"
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
		eachCLI(t, func(t *testing.T, s subject) {
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
