//go:build !linux

package proctree

import "os/exec"

func platformChild([]string) bool { return false }

func leftBehind() []Proc { return nil }

func prepare(*exec.Cmd, []string) {}
