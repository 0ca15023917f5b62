package fakeagent

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
)

// git does what an agent must not do in the repository, shown as the tool calls
// that a real one would make:
//
//	commit      Text (the message), Path (a file to write first)
//	push        Text (refspec, "HEAD"), Path (remote, "origin")
//	branch      Text (its name)
//	write_main  Path (in the main checkout of this worktree), Text
func (a *agent) git(s Step) error {
	switch s.Do {
	case "commit":
		if s.Path != "" {
			if err := a.say(a.file(Step{Path: s.Path, Text: "work\n"}), Step{}); err != nil {
				return err
			}
		}
		// The identity is given, so that it works in an environment without one.
		return errors.Join(
			a.say(a.bash(Step{Argv: []string{"git", "add", "-A"}}), Step{}),
			a.say(a.bash(Step{Sly: s.Sly, Argv: []string{"git", "-c", "user.name=Agent", "-c", "user.email=agent@example.invalid", "commit", "-m", or(s.Text, "work")}}), Step{}))
	case "push":
		return a.say(a.bash(Step{Sly: s.Sly, Argv: []string{"git", "push", or(s.Path, "origin"), or(s.Text, "HEAD")}}), Step{})
	case "branch":
		return a.say(a.bash(Step{Sly: s.Sly, Argv: []string{"git", "branch", or(s.Text, "made-by-agent")}}), Step{})
	}
	out, err := exec.Command("git", "rev-parse", "--path-format=absolute", "--git-common-dir").Output()
	if err != nil {
		return err
	}
	main := filepath.Dir(strings.TrimSpace(string(out)))
	return a.say(a.file(Step{Path: filepath.Join(main, s.Path), Text: s.Text}), Step{})
}

func or(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}
