//go:build !linux

package far

import (
	"errors"
	"os"
	"os/exec"
)

func mayWall() bool { return false }

// command is a keeper with args and another environment: there is no other wall here.
func (h *Host) command(args []string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, shimWord, h.root)
	cmd.Dir = h.Here(home)
	cmd.Args = append(cmd.Args, args...)
	return cmd, nil
}

// shim becomes the keeper, without an exec that not every system has.
func shim(args []string) error {
	if len(args) == 0 {
		return errors.New("no root")
	}
	os.Clearenv()
	for _, kv := range environment(args[0]) {
		for i := range kv {
			if kv[i] == '=' {
				if err := os.Setenv(kv[:i], kv[i+1:]); err != nil {
					return err
				}
				break
			}
		}
	}
	os.Args = append([]string{os.Args[0], keeperWord}, args[1:]...)
	Main()
	return errors.New("not reached")
}
