package rein_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/internal/fakeagent"
	"github.com/rein-run/rein/store"
)

// A wait for the next attempt is in the list of runs and can be stopped from
// another terminal; nothing is left of it.
func TestWaitIsShownAndStopped(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	at := time.Now().Add(time.Hour)
	task := s.task(
		fakeagent.Step{Do: "text", Text: "I begin."},
		fakeagent.Step{Do: "raw", Text: `{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":` + strconv.FormatInt(at.Unix(), 10) + `,"rateLimitType":"five_hour"}}` + "\n"},
		fakeagent.Step{Do: "result", Status: 429},
	)
	type result struct {
		rep *rein.Report
		err error
	}
	done := make(chan result, 1)
	go func() {
		rep, err := rein.Retry(context.Background(), task, &rein.RetryOptions{LimitWait: rein.DefaultLimitWait}, &s.opts)
		done <- result{rep, err}
	}()
	type state struct {
		Waiting *rein.Pause `json:"waiting"`
		RetryOf string      `json:"retry_of"`
		Attempt int         `json:"attempt"`
	}
	var waits state
	var run *store.Run
	for end := time.Now().Add(patience); run == nil; <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nothing is seen to wait")
		}
		all, err := s.store.List()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			var st state
			if _, err := e.Run.ReadState(&st); err == nil && e.Live && st.Waiting != nil {
				run, waits = e.Run, st
			}
		}
	}
	if !waits.Waiting.Limit || waits.Attempt != 2 || waits.RetryOf == "" {
		t.Errorf("%+v", waits)
	}
	m, err := rein.Attach(s.store, run.ID())
	for end := time.Now().Add(patience); err == nil; <-time.After(5 * time.Millisecond) {
		if err = m.Stop(context.Background(), false); err == nil || time.Now().After(end) {
			break // before, it is in the list and does not listen yet
		}
		err = nil
	}
	if err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-done:
		if rein.CancelledWho(got.err) != rein.CancelStop || got.rep == nil || got.rep.Attempt != 1 {
			t.Errorf("%+v, %v", got.rep, got.err)
		}
	case <-time.After(patience):
		t.Fatal("the wait goes on")
	}
	if all, err := s.store.List(); err != nil || len(all) != 1 {
		t.Errorf("%d runs, %v", len(all), err)
	}
}
