//go:build unix

package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rein-run/rein/internal/fakeagent"
)

const secret = "correct-horse/battery"

// spoken is an agent that has the secret in everything it writes, in pieces
// that end anywhere.
func spoken(end ...fakeagent.Step) fakeagent.Scenario {
	return fakeagent.Scenario{Chunk: 7, Steps: append([]fakeagent.Step{
		{Do: "bash", Argv: []string{"{self}", "fakeagent-child", `{"role":"end"}`}, Input: map[string]string{"command": "deploy --token " + secret}},
		{Do: "stderr", Text: "warning: " + secret + "\n"},
		{Do: "text", Text: "I used " + secret + " for it."},
	}, end...)}
}

// rein runs another verb on the runs of r, in an environment without the secret.
func (r *running) rein(args ...string) (stdout, stderr string, err error) {
	var out, errOut bytes.Buffer
	cmd := exec.Command(r.cmd.Path)
	cmd.Args = append([]string{"rein", "runs"}, args...)
	cmd.Env = r.cmd.Env
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err = cmd.Run()
	return out.String(), errOut.String(), err
}

// redactedIn checks what a verb shows.
func (r *running) redactedIn(want string, args ...string) {
	r.t.Helper()
	out, errOut, err := r.rein(args...)
	if err != nil {
		r.t.Errorf("%v: %v: %s", args, err, errOut)
	}
	if strings.Contains(out+errOut, secret) {
		r.t.Errorf("%v shows the secret: %s", args, out)
	}
	if !strings.Contains(out+errOut, want) {
		r.t.Errorf("%v does not show %s: %s%s", args, want, out, errOut)
	}
}

// A value that was given to a run is known to its process alone. Another
// terminal shows its name all the same, while the run lives and afterwards, and
// the value is nowhere on disk but in the agent's own bytes.
func TestSecretsInAnotherTerminal(t *testing.T) {
	t.Parallel()
	r := prepare(t, spoken(fakeagent.Step{Do: "hang"}), "--id", "s", "-e", "DEPLOY_TOKEN="+secret, "--total", "none", "--idle", "none", "--stall", "none")
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.cmd.Process.Kill(); r.cmd.Wait() })
	r.until("the agent has spoken", func() bool {
		out, _, _ := r.rein("tail", "s", "--raw", "-n", "100")
		return strings.Contains(out, "I used "+secret)
	})

	watcher := exec.Command(r.cmd.Path)
	watcher.Args = []string{"rein", "runs", "attach", "s"}
	watcher.Env = r.cmd.Env
	out, err := watcher.StdoutPipe()
	if err == nil {
		err = watcher.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { watcher.Process.Kill(); watcher.Wait() })
	lines := bufio.NewReader(out)
	seen, err := lines.ReadString('\n') // it watches
	if err != nil {
		t.Fatal(err)
	}

	r.redactedIn("I used [DEPLOY_TOKEN] for it.", "tail", "s", "-n", "100")
	r.redactedIn("warning: [DEPLOY_TOKEN]", "tail", "s", "--stderr")
	r.redactedIn("deploy --token [DEPLOY_TOKEN]", "tools", "s")
	r.redactedIn("I used [DEPLOY_TOKEN] for it.", "replay", "s", "--speed", "0")

	if _, errOut, err := r.rein("stop", "s"); err != nil {
		t.Fatal(errOut)
	}
	r.ended(143, "rein runs stop")
	rest, _ := io.ReadAll(lines)
	if out := seen + string(rest); strings.Contains(out, secret) || !strings.Contains(out, "[DEPLOY_TOKEN]") {
		t.Errorf("attach shows %s", out)
	}

	r.redactedIn("I used [DEPLOY_TOKEN] for it.", "tail", "s", "-n", "100")
	r.redactedIn("warning: [DEPLOY_TOKEN]", "tail", "s", "--stderr")
	r.redactedIn("deploy --token [DEPLOY_TOKEN]", "tools", "s")
	r.redactedIn("I used [DEPLOY_TOKEN] for it.", "replay", "s", "--speed", "0")
	r.redactedIn("[DEPLOY_TOKEN]", "show", "s", "--json")
	if out, _, _ := r.rein("tail", "s", "--raw", "-n", "100"); !strings.Contains(out, secret) {
		t.Error("--raw is not exact")
	}

	dir := filepath.Join(filepath.Dir(r.report), "rein", "runs", "s")
	ents, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range ents {
		b, _ := os.ReadFile(filepath.Join(dir, e.Name()))
		exact := e.Name() == "transcript" || e.Name() == "stderr"
		if bytes.Contains(b, []byte(secret)) != exact {
			t.Errorf("%s: the secret is there: %v", e.Name(), !exact)
		}
	}
}

// When rein is killed the values die with it. What cannot be redacted any more
// is not shown without --raw.
func TestSecretsOfALostRun(t *testing.T) {
	t.Parallel()
	r := prepare(t, spoken(fakeagent.Step{Do: "hang"}), "--id", "killed", "-e", "DEPLOY_TOKEN="+secret)
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.cmd.Process.Kill(); r.cmd.Wait() })
	r.until("the agent has spoken", func() bool {
		out, _, _ := r.rein("tail", "killed", "--raw", "-n", "100")
		return strings.Contains(out, "I used "+secret)
	})
	r.cmd.Process.Kill()
	r.cmd.Wait()
	if _, errOut, err := r.rein("show", "killed"); err != nil || !strings.Contains(errOut, "DEPLOY_TOKEN") {
		t.Errorf("show: %v: %s", err, errOut)
	}
	for _, args := range [][]string{{"tail", "killed"}, {"tail", "killed", "--stderr"}, {"tools", "killed"}, {"replay", "killed", "--speed", "0"}} {
		out, errOut, err := r.rein(args...)
		if err == nil || strings.Contains(out+errOut, secret) || !strings.Contains(errOut, "DEPLOY_TOKEN") || !strings.Contains(errOut, "--raw") {
			t.Errorf("%v: %v: %s%s", args, err, out, errOut)
		}
		if out, errOut, err := r.rein(append(args, "--raw")...); err != nil || !strings.Contains(out, secret) {
			t.Errorf("%v --raw: %v: %s%s", args, err, out, errOut)
		}
	}
	// Who has the value in the environment has it redacted.
	r.cmd.Env = append(r.cmd.Env, "DEPLOY_TOKEN="+secret)
	r.redactedIn("I used [DEPLOY_TOKEN] for it.", "tail", "killed", "-n", "100")
}
