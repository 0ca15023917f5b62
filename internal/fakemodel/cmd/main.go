// Command cmd runs another command with a scripted model behind it, so that a
// real agent CLI can be tried by hand, or recorded, with no account:
//
//	cmd -script turns.json claude -- claude -p "do it" --output-format stream-json --verbose
//
// The first argument says whose recipe is used: claude, codex, pi …
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"

	"github.com/rein-run/rein/internal/fakemodel"
)

func main() {
	code, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fakemodel:", err)
		code = 2
	}
	os.Exit(code)
}

func run() (int, error) {
	file := flag.String("script", "", "file with the script; without one the model says that it is done")
	home := flag.String("home", "", "folder to be the CLI's home; without one it is a new one, removed at the end")
	flag.Parse()
	args := flag.Args()
	recipes := map[string]func(*fakemodel.Server, string) (fakemodel.Setup, error){
		"claude": fakemodel.Claude, "codex": fakemodel.Codex, "pi": fakemodel.Pi,
		"gemini": fakemodel.Gemini, "qwen": fakemodel.Qwen, "grok": fakemodel.Grok, "copilot": fakemodel.Copilot,
	}
	if len(args) < 3 || args[1] != "--" || recipes[args[0]] == nil {
		return 0, errors.New("usage: cmd [-script FILE] [-home DIR] claude|codex|pi|gemini|qwen|grok|copilot -- COMMAND and its arguments")
	}
	var script fakemodel.Script
	if *file != "" {
		b, err := os.ReadFile(*file)
		if err != nil {
			return 0, err
		}
		if err := json.Unmarshal(b, &script); err != nil {
			return 0, fmt.Errorf("%s: %w", *file, err)
		}
	}
	if *home == "" {
		dir, err := os.MkdirTemp("", "fakemodel-home-")
		if err != nil {
			return 0, err
		}
		defer os.RemoveAll(dir)
		*home = dir
	}
	srv, err := fakemodel.New(script)
	if err != nil {
		return 0, err
	}
	defer srv.Close()
	setup, err := recipes[args[0]](srv, *home)
	if err != nil {
		return 0, err
	}
	// The command gets the terminal's INT itself; this process stays to tell the
	// account. Caught, not ignored: that would be inherited.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	cmd := exec.Command(args[2], append(args[3:], setup.Args...)...)
	cmd.Env = os.Environ()
	for k, v := range setup.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	told := srv.Told()
	fmt.Fprintf(os.Stderr, "fakemodel: %d requests; told %d in, %d out, %d from cache\n",
		len(srv.Requests()), told.Input, told.Output, told.CacheRead)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}
