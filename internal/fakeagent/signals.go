package fakeagent

import (
	"os"
	"os/signal"
	"syscall"
)

// handleSignals makes the program answer signals as its CLI was seen to:
//
//	          TERM                  HUP       INT
//	claude    tool killed, 143      129       result "aborted", 0
//	codex     tool TERMed, dies     dies      1
//	pi        tool killed, 143      129       dies, tool orphaned
//
// A step on_term or ignore_term changes that for TERM.
func (a *agent) handleSignals() {
	c := make(chan os.Signal, 8)
	watch := []os.Signal{syscall.SIGTERM, syscall.SIGHUP}
	if a.name != "pi" {
		watch = append(watch, os.Interrupt)
	}
	signal.Notify(c, watch...)
	go func() {
		for sig := range c {
			a.signalled(sig)
		}
	}()
}

func (a *agent) signalled(sig os.Signal) {
	a.mu.Lock()
	tool, change := a.running, a.onTerm
	a.mu.Unlock()
	if sig == syscall.SIGTERM && change != nil {
		a.out.write([]byte(change.Text))
		if change.Do == "ignore_term" {
			return
		}
		if change.Code != nil {
			os.Exit(*change.Code)
		}
		os.Exit(143)
	}
	if tool != nil {
		endTool(tool.cmd, a.name == "codex")
	}
	switch {
	case sig == os.Interrupt:
		a.work.Lock() // for good: no step goes on
		if code := a.wire.interrupted(); code >= 0 {
			os.Exit(code)
		}
		dieOf("SIGINT")
	case a.name == "codex" && sig == syscall.SIGTERM:
		dieOf("SIGTERM")
	case a.name == "codex":
		dieOf("SIGHUP")
	case sig == syscall.SIGTERM:
		os.Exit(143)
	}
	os.Exit(129)
}
