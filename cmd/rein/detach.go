package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/rein-run/rein"
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
	ID    string `json:"id,omitempty"`
	Error string `json:"error,omitempty"`
	Code  int    `json:"code,omitempty"`
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
		fmt.Fprintln(a.stderr, "rein: "+n.Error)
		return exitCode(n.Code)
	}
	if _, err := fmt.Fprintln(a.stdout, n.ID); err != nil {
		return fmt.Errorf("run %s works in the background, but stdout cannot be written: %w", n.ID, err)
	}
	if !c.Quiet {
		fmt.Fprintf(a.stderr, "rein: working in the background: rein runs attach %[1]s, rein runs stop %[1]s\n", n.ID)
	}
	return cmd.Process.Release()
}

// runDetached is the background side.
func (c *runCmd) runDetached(a *app) error {
	os.Unsetenv(detachVar)
	pipe := os.NewFile(newsFd, "detach")
	defer pipe.Close()
	var log strings.Builder
	told := false
	tell := func(n news) {
		if !told {
			told = true
			json.NewEncoder(pipe).Encode(n)
			pipe.Close()
		}
	}
	err := c.run(a, func(id string, err error) {
		if err == nil {
			tell(news{ID: id})
			return
		}
		code := rein.ExitFailed
		switch err.(type) {
		case usageError:
			code = rein.ExitUsage
		case startError:
			code = rein.ExitNotStarted
		}
		log.WriteString(oneLine(err))
		tell(news{Error: log.String(), Code: code})
	})
	return err
}
