package fakemodel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

func start(t *testing.T, s Script) *Server {
	t.Helper()
	srv, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	return srv
}

// client has connections of its own, so that no test waits for another's.
func post(t *testing.T, ctx context.Context, srv *Server, path string, body object) (*http.Response, string, error) {
	t.Helper()
	if body["tools"] == nil {
		body["tools"] = []object{{"name": "Bash"}}
	}
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL()+path, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	res, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	return res, string(all), err
}

// events returns the data of each server-sent event.
func events(t *testing.T, text string) (out []map[string]any) {
	t.Helper()
	for part := range strings.SplitSeq(strings.TrimSuffix(text, "\n\n"), "\n\n") {
		_, data, ok := strings.Cut("\n"+part, "\ndata: ")
		if !ok {
			t.Fatalf("no data: %q", part)
		}
		if data == "[DONE]" {
			continue
		}
		var v map[string]any
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			t.Fatalf("%v: %q", err, data)
		}
		out = append(out, v)
	}
	return out
}

var apis = map[string]string{"messages": "/v1/messages?beta=true", "responses": "/v1/responses", "chat": "/v1/chat/completions"}

// TestStreamAndWholeAgree: both forms of an answer hold the text, the call and
// the numbers that the server says it told.
func TestStreamAndWholeAgree(t *testing.T) {
	turn := Turn{
		Thinking: "pondering for a while", Text: "Hello from the model, in more than one piece: äöü.",
		Tools: []Call{Tool("Bash", object{"command": "echo hi"})}, In: 1234, Out: 567, CacheRead: 11, Repeat: -1,
	}
	for api, path := range apis {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			srv := start(t, Script{Turns: []Turn{turn}})
			_, streamed, err := post(t, t.Context(), srv, path, object{"model": "m", "stream": true})
			if err != nil {
				t.Fatal(err)
			}
			var text, last strings.Builder
			for _, e := range events(t, streamed) {
				b, _ := json.Marshal(e)
				last.Write(b)
				switch d := e["delta"].(type) {
				case map[string]any:
					s, _ := d["text"].(string)
					text.WriteString(s)
				case string:
					if e["type"] == "response.output_text.delta" {
						text.WriteString(d)
					}
				}
				if cs, ok := e["choices"].([]any); ok && len(cs) > 0 {
					s, _ := cs[0].(map[string]any)["delta"].(map[string]any)["content"].(string)
					text.WriteString(s)
				}
			}
			if text.String() != turn.Text {
				t.Errorf("streamed text %q", text.String())
			}
			_, whole, err := post(t, t.Context(), srv, path, object{"model": "m"})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range []string{last.String(), whole} {
				for _, want := range []string{"1234", "567", "echo hi", "Bash"} {
					if !strings.Contains(s, want) {
						t.Errorf("%s is not in %s", want, s)
					}
				}
			}
			want := Usage{Input: 1234, Output: 567, CacheRead: 11}
			if api != "messages" {
				want.Input -= 11
			}
			reqs := srv.Requests()
			if len(reqs) != 2 || reqs[0].Told != want || reqs[1].Told != want || !reqs[0].Whole || reqs[0].API != api || reqs[0].Model != "m" {
				t.Errorf("%+v", reqs)
			}
			if got := srv.Told(); got != want.plus(want) {
				t.Errorf("told %+v", got)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	for api, path := range apis {
		for _, status := range []int{400, 401, 403, 429, 500, 529} {
			srv := start(t, Script{Turns: []Turn{{Status: status, ErrMessage: "no", Headers: map[string]string{"retry-after": "7"}}, {Text: "after"}}})
			res, body, err := post(t, t.Context(), srv, path, object{"stream": true})
			if err != nil || res.StatusCode != status || res.Header.Get("Retry-After") != "7" || !strings.Contains(body, `"message":"no"`) {
				t.Errorf("%s %d: %v %q %v", api, status, res, body, err)
			}
			if _, body, _ = post(t, t.Context(), srv, path, object{"stream": true}); !strings.Contains(body, "after") {
				t.Errorf("%s: second turn: %q", api, body)
			}
			if r := srv.Requests()[0]; r.Status != status || r.Told != (Usage{}) {
				t.Errorf("%+v", r)
			}
		}
	}
}

func TestDrops(t *testing.T) {
	for api, path := range apis {
		for _, place := range []string{"headers", "start", "mid"} {
			srv := start(t, Script{Turns: []Turn{{Text: "some text that will be cut", Drop: place}}})
			_, body, err := post(t, t.Context(), srv, path, object{"stream": true})
			if err == nil {
				t.Errorf("%s %s: no error, %q", api, place, body)
			}
			if mid := strings.Contains(body, "some text th"); mid != (place == "mid") && api != "chat" {
				t.Errorf("%s %s: %q", api, place, body)
			}
			if srv.Requests()[0].Whole {
				t.Errorf("%s %s: whole", api, place)
			}
		}
		srv := start(t, Script{Turns: []Turn{{Text: "some text that will be cut", StreamErr: "Overloaded"}}})
		_, body, err := post(t, t.Context(), srv, path, object{"stream": true})
		if err != nil || !strings.Contains(body, "Overloaded") || strings.Contains(body, "be cut\"") {
			t.Errorf("%s: %q, %v", api, body, err)
		}
	}
}

// TestHang: the answer stays away until the client gives up, and Close does not
// wait for a client that does not.
func TestHang(t *testing.T) {
	for _, place := range []string{"headers", "start", "mid"} {
		srv := start(t, Script{Turns: []Turn{{Text: "text", Hang: place, Repeat: -1}}})
		ctx, cancel := context.WithCancel(t.Context())
		first, second := make(chan error, 1), make(chan error, 1)
		go func() {
			_, _, err := post(t, ctx, srv, apis["messages"], object{"stream": true})
			first <- err
		}()
		go func() {
			_, _, err := post(t, t.Context(), srv, apis["messages"], object{"stream": true})
			second <- err
		}()
		bound, stop := context.WithTimeout(t.Context(), time.Minute)
		if err := srv.Wait(bound, 2); err != nil {
			t.Fatal(err)
		}
		stop()
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", place, err)
		}
		select {
		case err := <-second:
			t.Errorf("%s: it did not hang: %v", place, err)
		default:
		}
		srv.Close()
		if err := <-second; err == nil {
			t.Errorf("%s: Close let it end well", place)
		}
	}
}

func TestWhichTurn(t *testing.T) {
	t.Parallel()
	srv := start(t, Script{
		Turns:     []Turn{{Text: "one"}, {Text: "two", Repeat: 2}, {Text: "three"}},
		SideMatch: "title please", Side: &Turn{Text: "a title"},
		Routes: []Route{{Match: "other task", Turns: []Turn{{Text: "routed"}}}},
	})
	for _, c := range []struct {
		body object
		want string
		side bool
	}{
		{object{"x": "go"}, "one", false},
		{object{"x": "a title please"}, "a title", true},
		{object{"x": "go"}, "two", false},
		{object{"x": "the other task"}, "routed", false},
		{object{"x": "go", "tools": []object{}}, "a title", true},
		{object{"x": "go"}, "two", false},
		{object{"x": "go"}, "three", false},
		{object{"x": "go"}, "done", false},
	} {
		_, body, err := post(t, t.Context(), srv, apis["chat"], c.body)
		if err != nil || !strings.Contains(body, `"content":"`+c.want+`"`) {
			t.Errorf("%v: %q, %v; want %q", c.body, body, err, c.want)
		}
		if reqs := srv.Requests(); reqs[len(reqs)-1].Side != c.side {
			t.Errorf("%v: side %v", c.body, !c.side)
		}
	}
	if n := len(srv.Bodies()); n != 6 {
		t.Errorf("%d bodies", n)
	}
	if err := srv.Load(Script{Turns: []Turn{{Text: "new"}}}); err != nil {
		t.Fatal(err)
	}
	if _, body, _ := post(t, t.Context(), srv, apis["chat"], object{}); !strings.Contains(body, "new") {
		t.Error(body)
	}
	if _, err := New(Script{SideMatch: "("}); err == nil {
		t.Error("a bad pattern is taken")
	}
}

// TestAside: what a CLI asks for itself uses up no turn and is in no account.
func TestAside(t *testing.T) {
	t.Parallel()
	srv := start(t, Script{Turns: []Turn{{Text: "one"}}})
	srv.Aside(regexp.MustCompile("session_title"))
	for body, want := range map[string]string{"session_title": "ok", "go": "one"} {
		if _, got, err := post(t, t.Context(), srv, apis["chat"], object{"x": body, "tools": []object{{}}}); err != nil || !strings.Contains(got, `"content":"`+want+`"`) {
			t.Errorf("%s: %q, %v", body, got, err)
		}
	}
	if all := srv.Requests(); len(all) != 1 || all[0].N != 1 || srv.Told() != (Usage{Input: 100, Output: 50}) {
		t.Errorf("%+v", all)
	}
}

// TestModels: CLIs that ask for the models first.
func TestModels(t *testing.T) {
	t.Parallel()
	srv := start(t, Script{})
	res, err := http.Get(srv.URL() + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	if !strings.Contains(string(b), ChatModel) {
		t.Errorf("%s", b)
	}
	if _, body, _ := post(t, t.Context(), srv, "/v1/messages", object{}); !strings.Contains(body, "done") {
		t.Error(body)
	}
}
