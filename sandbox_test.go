package rein_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/host"
	"github.com/rein-run/rein/host/local"
	"github.com/rein-run/rein/internal/fakeagent"
)

// What cannot have a sandbox is refused before anything starts, in words; a run
// that asks for none says so.
func TestSandboxIsRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	task := s.task(fakeagent.Step{Do: "text", Text: "done"}, fakeagent.Step{Do: "result"})
	if rep := s.do(task); rep.Sandbox.Kind != rein.SandboxNone || rep.Sandbox.Network != rein.NetworkOpen || rep.Sandbox.Gaps == nil {
		t.Errorf("%+v", rep.Sandbox)
	}
	task.Sandbox = true
	refused := func(want string) {
		t.Helper()
		_, err := rein.Describe(context.Background(), task, &s.opts)
		if !errors.Is(err, rein.ErrTask) || !strings.HasPrefix(err.Error(), "--sandbox: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	s.opts.Keeper = nil
	if runtime.GOOS != "linux" {
		refused("on Linux only")
		return
	}
	refused("Options.Keeper")
	s.opts.Host = host.New(local.New(nil), nil)
	refused("on this machine only")
}
