package fakemodel

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// Google's API has the model and the form of the answer in the path.
func TestGemini(t *testing.T) {
	const models = "/v1beta/models/"
	turn := Turn{
		Thinking: "pondering for a while", Text: "Hello from the model, in more than one piece: äöü.",
		Tools: []Call{Tool("run", object{"command": "echo hi"})}, In: 1234, Out: 567, CacheRead: 11, Reasoning: 7, Repeat: 2,
	}
	srv := start(t, Script{Turns: []Turn{turn, {Status: http.StatusUnauthorized, ErrMessage: "no"}, {Text: "cut off in its middle", Drop: "mid"}}})
	_, streamed, err := post(t, t.Context(), srv, models+"m-1:streamGenerateContent?alt=sse", object{})
	if err != nil {
		t.Fatal(err)
	}
	var text, thought strings.Builder
	for _, e := range events(t, streamed) {
		for _, p := range e["candidates"].([]any)[0].(map[string]any)["content"].(map[string]any)["parts"].([]any) {
			part := p.(map[string]any)
			piece, _ := part["text"].(string)
			if part["thought"] == true {
				thought.WriteString(piece)
			} else {
				text.WriteString(piece)
			}
		}
	}
	if text.String() != turn.Text || thought.String() != turn.Thinking {
		t.Errorf("streamed %q, %q", text.String(), thought.String())
	}
	_, whole, err := post(t, t.Context(), srv, models+"m-1:generateContent", object{})
	if err != nil || !json.Valid([]byte(whole)) {
		t.Fatalf("%v: %s", err, whole)
	}
	for _, s := range []string{streamed, whole} {
		for _, want := range []string{`"promptTokenCount":1234`, `"cachedContentTokenCount":11`, `"thoughtsTokenCount":7`, `"functionCall"`, "echo hi", `"finishReason":"STOP"`} {
			if !strings.Contains(s, want) {
				t.Errorf("%s is not in %s", want, s)
			}
		}
	}
	want := Usage{Input: 1223, Output: 574, CacheRead: 11}
	for _, r := range srv.Requests() {
		if r.Told != want || r.API != "gemini" || r.Model != "m-1" || !r.Whole || r.Side {
			t.Errorf("%+v", r)
		}
	}
	if res, body, err := post(t, t.Context(), srv, models+"m-1:streamGenerateContent", object{}); err != nil || res.StatusCode != http.StatusUnauthorized || !strings.Contains(body, `"code":401`) || !strings.Contains(body, `"status":"UNAUTHENTICATED"`) {
		t.Errorf("%v %q %v", res, body, err)
	}
	if _, body, err := post(t, t.Context(), srv, models+"m-1:streamGenerateContent", object{}); err == nil {
		t.Errorf("no error, %q", body)
	}
	if res, _, err := post(t, t.Context(), srv, models+"m-1:countTokens", object{}); err != nil || res.StatusCode != http.StatusNotFound {
		t.Errorf("%v %v", res, err)
	}
}
