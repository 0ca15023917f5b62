package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/host"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/store"
)

// A CLI that is asked starts a runtime of its own: a few at once are as fast as
// all, and all at once make the slowest look as if it hung.
const atOnce = 3

// examineTime bounds all that one CLI is asked.
const examineTime = 90 * time.Second

// examine fills in what can be known of the agents on a host.
func examine(h *host.Host, name string, all []found, cache *agent.Cache) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range all {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			all[i].examine(h, &agent.ProbeOptions{HostName: name, Cache: cache})
		})
	}
	wg.Wait()
}

func (f *found) examine(h *host.Host, o *agent.ProbeOptions) {
	ctx, cancel := context.WithTimeout(context.Background(), examineTime)
	defer cancel()
	f.Install, f.Login, f.MissingFlags = f.agent.Capabilities("").Install, agent.Login{State: agent.LoginUnknown}, []string{}
	facts, err := agent.Probe(ctx, h, f.agent, o)
	f.Capabilities = f.agent.Capabilities(facts.Version)
	switch {
	case err == nil:
	case errors.Is(err, driver.ErrNotFound):
		return
	default:
		f.Problem = oneLine(err)
		return
	}
	f.Installed, f.Version, f.Exe = true, facts.Version, facts.Exe
	f.Login = agent.AskLogin(ctx, h, f.agent, facts, nil, f.Capabilities.Scrub)
	missing, ok := agent.MissingFlags(ctx, h, f.agent, facts, o)
	f.Flags, f.MissingFlags = ok, append(f.MissingFlags, missing...)
}

// probeCache is where a run keeps the versions; nil where there was no run yet.
func probeCache(stateDir string) *agent.Cache {
	s, err := store.Find(stateDir)
	if err != nil {
		return nil
	}
	if _, err := os.Stat(s.Dir); err != nil {
		return nil
	}
	return agent.NewCache(filepath.Join(s.Dir, "probes.json"))
}

// login is what a CLI says of it, in two words.
func login(l agent.Login) string {
	words := map[agent.LoginState]string{agent.LoggedIn: "logged in", agent.LoggedOut: "logged out"}[l.State]
	if words == "" {
		return "login unknown"
	}
	if l.Pays != "" {
		words += " (" + strings.TrimSpace(l.Pays) + ")"
	}
	return words
}
