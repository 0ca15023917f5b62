package agenttest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"
)

// childVar makes the test binary a process that writes what it was given to
// the file that it names.
const childVar = "REIN_AGENTTEST_CHILD"

// given is what a process was given.
type given struct {
	Args  []string
	Stdin []byte
	Env   []string
}

// Main is the TestMain of a package that calls Run. In a process that Run
// started it writes down what it was given and ends.
func Main(m *testing.M) {
	file := os.Getenv(childVar)
	if file == "" {
		os.Exit(m.Run())
	}
	stdin, err := io.ReadAll(os.Stdin)
	if err == nil {
		var b []byte
		if b, err = json.Marshal(given{os.Args, stdin, os.Environ()}); err == nil {
			err = os.WriteFile(file, b, 0o600)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// checkSpawn starts a process with the command and asks it what it was given:
// a model that is in every record and never reached the process is an old
// mistake.
func checkSpawn(p *probe) {
	exe, err := os.Executable()
	if err != nil {
		p.errorf("%v", err)
		return
	}
	dir, err := os.MkdirTemp("", "agenttest-")
	if err != nil {
		p.errorf("%v", err)
		return
	}
	defer os.RemoveAll(dir)

	p.Facts.Exe, p.Facts.OS = exe, runtime.GOOS
	inv := plain()
	inv.Dir, inv.Model, inv.Args = dir, p.Model, p.Args
	inv.Prompt = "- first $(x) \"y\"\n--second\n"
	c, ok := p.build("spawn", inv)
	if !ok {
		return
	}
	out := filepath.Join(dir, "given.json")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir = dir
	cmd.Stdin = bytes.NewReader(c.Stdin)
	cmd.Env = append(os.Environ(), childVar+"="+out)
	for k, v := range c.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	said, err := cmd.CombinedOutput()
	var got given
	if b, rerr := os.ReadFile(out); rerr != nil || json.Unmarshal(b, &got) != nil {
		p.errorf("the process did not tell what it was given (%v): does TestMain call agenttest.Main? %.300s", err, said)
		return
	}
	if !slices.Equal(got.Args, c.Argv) {
		p.errorf("the process was given %q, not %q", got.Args, c.Argv)
	}
	if !bytes.Equal(got.Stdin, c.Stdin) {
		p.errorf("the process read %q from stdin", got.Stdin)
	}
	if !slices.ContainsFunc(got.Args, func(a string) bool {
		return a == p.Model || len(a) > len(p.Model) && a[len(a)-len(p.Model)-1:] == "="+p.Model
	}) {
		p.errorf("the model never reached the process: %q", got.Args)
	}
	for k, v := range c.Env {
		if !slices.Contains(got.Env, k+"="+v) {
			p.errorf("%s never reached the process", k)
		}
	}
}
