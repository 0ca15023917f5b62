//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/internal/fakeagent"
)

// `rein run --wait-for-limit` says until when it waits, and Ctrl-C ends the
// wait: the report of the attempt that failed is there, for people and programs.
func TestCtrlCEndsTheWaitForALimit(t *testing.T) {
	event := fmt.Sprintf(`{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":%d,"rateLimitType":"five_hour"}}`, time.Now().Add(3*time.Hour).Unix())
	r := prepare(t, fakeagent.Scenario{Steps: []fakeagent.Step{
		{Do: "bash", Command: "true"}, {Do: "raw", Text: event + "\n"}, {Do: "result", Status: 429},
	}}, "--wait-for-limit", "--json", "--id", "limited")
	var out bytes.Buffer
	r.cmd.Stdout = &out
	r.cmd.Stderr = nil
	said, err := r.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.cmd.Process.Kill() })
	hang := time.AfterFunc(patience, func() { r.cmd.Process.Kill() })
	defer hang.Stop()
	lines := bufio.NewScanner(said)
	waiting := ""
	for lines.Scan() {
		if waiting = lines.Text(); strings.Contains(waiting, "waiting for the limit to be reset at ") {
			break
		}
	}
	if !strings.Contains(waiting, "goes on; Ctrl-C ends the wait") {
		t.Errorf("said %q", waiting)
	}
	r.cmd.Process.Signal(os.Interrupt)
	rest, _ := io.ReadAll(said)
	r.cmd.Wait()
	if code := r.cmd.ProcessState.ExitCode(); code != rein.ExitInterrupt {
		t.Errorf("exit %d: %s", code, rest)
	}
	if p := r.cmd.ProcessState.Sys().(syscall.WaitStatus); p.Signaled() {
		t.Errorf("it was killed: %v", p)
	}
	b, err := os.ReadFile(r.report)
	var rep rein.Report
	if err != nil || json.Unmarshal(b, &rep) != nil || rep.ID != "limited" || rep.OK {
		t.Errorf("report %s: %v", b, err)
	}
	var types []string
	for line := range strings.Lines(out.String()) {
		var ev rein.Event
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if ev.Type != "reading" {
			types = append(types, ev.Type)
		}
		if ev.Type == "retry" && (ev.Pause == nil || !ev.Pause.Limit || ev.Pause.Attempt != 2 || ev.Report == nil || ev.Report.ID != "limited") {
			t.Errorf("%s", line)
		}
	}
	if got := strings.Join(types, " "); got != "retry report" {
		t.Errorf("events %q", got)
	}
}

// A wait is in `rein runs` and ended by `rein runs stop`, by the id that was
// printed when the task began.
func TestStopEndsTheWait(t *testing.T) {
	event := fmt.Sprintf(`{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":%d,"rateLimitType":"five_hour"}}`, time.Now().Add(3*time.Hour).Unix())
	r := prepare(t, fakeagent.Scenario{Steps: []fakeagent.Step{
		{Do: "text", Text: "x", Usage: &fakeagent.Usage{In: 10, Out: 5}}, {Do: "raw", Text: event + "\n"}, {Do: "result", Status: 429},
	}}, "--wait-for-limit", "--id", "limited")
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.cmd.Process.Kill() })
	rein := func(args ...string) string {
		cmd := exec.Command(r.cmd.Path)
		cmd.Args, cmd.Env = append([]string{"rein"}, args...), r.cmd.Env
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	list := ""
	r.until("the wait is listed", func() bool { list = rein("runs"); return strings.Contains(list, "waiting until ") })
	if !strings.Contains(list, "limited-2") || !strings.Contains(list, "for attempt 2 (rate_limited)") {
		t.Errorf("listed as\n%s", list)
	}
	said := ""
	r.until("it stops", func() bool {
		said = rein("runs", "stop", "limited")
		return strings.Contains(said, "limited-2 stopped")
	})
	r.cmd.Wait()
	if code := r.cmd.ProcessState.ExitCode(); code != 143 {
		t.Errorf("exit %d", code)
	}
	if list = rein("runs"); strings.Contains(list, "limited-2") || !strings.Contains(r.err.String(), "cancelled by rein runs stop while waiting") {
		t.Errorf("afterwards\n%s\n%s", list, r.err.String())
	}
}
