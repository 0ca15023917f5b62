package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/cmd/rein/internal/tui"
)

// detachVar tells a rein that was started by detach so, and is removed from
// its environment before an agent could see it. Its arguments come through a
// pipe: a prompt or an --env value must not stand in ps for as long as the run
// lasts.
const detachVar = "REIN_DETACHED"

const (
	newsFd = 3
	argsFd = 4
)

func detached() bool { return os.Getenv(detachVar) != "" }

// detachedArgs reads the command line that detach was given.
func detachedArgs() []string {
	f := os.NewFile(argsFd, "arguments")
	defer f.Close()
	var args []string
	if err := json.NewDecoder(f).Decode(&args); err != nil {
		return nil
	}
	return args
}

// news is what the background rein says over its pipe, once.
type news struct {
	ID    string   `json:"id,omitempty"`
	Dir   string   `json:"dir,omitempty"`   // of the run
	Notes []string `json:"notes,omitempty"` // for the user: what a foreground run says on stderr at its start

	Error  string       `json:"error,omitempty"`
	Code   int          `json:"code,omitempty"`
	Report *rein.Report `json:"report,omitempty"` // why the agent did not start
}

// failure is the news of a run that did not start.
func failure(err error, rep *rein.Report) news {
	n := news{Error: oneLine(err), Code: codeOf(err), Report: rep}
	if ec, ok := errors.AsType[exitCode](err); ok {
		n.Code = int(ec)
	}
	return n
}

// detach starts this rein again in a session of its own, waits until the agent
// runs or was refused, and prints the run's id. The background rein is an
// ordinary supervisor: clocks, budgets and the report are the same, and it can
// be reached with `rein runs`.
func (c *runCmd) detach(a *app) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	pr, pw, err := os.Pipe()
	if err != nil {
		return err
	}
	defer pr.Close()
	args, argsIn, err := os.Pipe()
	if err != nil {
		pw.Close()
		return err
	}
	defer argsIn.Close()
	cmd := exec.Command(exe, "run")
	cmd.Env = append(os.Environ(), detachVar+"=1")
	cmd.ExtraFiles = []*os.File{pw, args}
	if slices.Equal(c.Prompt, []string{"-"}) {
		cmd.Stdin = a.stdin
	}
	detachProcess(cmd)
	if err := cmd.Start(); err != nil {
		pw.Close()
		args.Close()
		return err
	}
	pw.Close()
	args.Close()
	if err := json.NewEncoder(argsIn).Encode(os.Args[1:]); err != nil {
		return err
	}
	argsIn.Close()
	var n news
	if err := json.NewDecoder(io.LimitReader(pr, 1<<20)).Decode(&n); err != nil {
		_ = cmd.Wait()
		return startError{fmt.Errorf("the background rein ended before the agent started")}
	}
	if n.Error != "" {
		_ = cmd.Wait()
		if c.JSON && n.Report != nil {
			json.NewEncoder(a.stdout).Encode(rein.Event{Schema: rein.EventSchema, Type: "report", Report: n.Report})
		}
		a.complain(n.Error)
		return exitCode(n.Code)
	}
	if c.JSON {
		err = json.NewEncoder(a.stdout).Encode(rein.Event{Schema: rein.EventSchema, Type: "detached", ID: n.ID, RunDir: n.Dir, PID: cmd.Process.Pid})
	} else {
		_, err = fmt.Fprintln(a.stdout, n.ID)
	}
	if err != nil {
		return fmt.Errorf("run %s works in the background, but stdout cannot be written: %w", n.ID, err)
	}
	if !c.Quiet {
		for _, note := range n.Notes {
			fmt.Fprintln(a.stderr, "rein: "+tui.Clean(note))
		}
		fmt.Fprintf(a.stderr, "rein: working in the background: rein runs attach %[1]s, rein runs stop %[1]s\n", n.ID)
	}
	return cmd.Process.Release()
}

// runDetached is the background side.
func (c *runCmd) runDetached(a *app) error {
	os.Unsetenv(detachVar)
	pipe := os.NewFile(newsFd, "detach")
	defer pipe.Close()
	told := false
	// Nobody reads what it would write: the parent prints the start, and viewers
	// come with `rein runs attach`.
	c.JSON = false
	return c.run(a, func(n news) {
		if !told {
			told = true
			json.NewEncoder(pipe).Encode(n)
			pipe.Close()
		}
	})
}
