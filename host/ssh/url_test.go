package ssh

import (
	"errors"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for url, want := range map[string]target{
		"ssh://h":                 {host: "h"},
		"ssh://h/":                {host: "h"},
		"ssh://u@h:2222/srv/x y":  {user: "u", host: "h", port: "2222", dir: "/srv/x y"},
		"ssh://h/~":               {host: "h", dir: "~"},
		"ssh://h/~/p":             {host: "h", dir: "~/p"},
		"ssh://h/~u/p":            {host: "h", dir: "/~u/p"},
		"ssh://[::1]/d":           {host: "::1", dir: "/d"},
		"ssh://[fe80::1%lo]:22/d": {host: "fe80::1%lo", port: "22", dir: "/d"},
		"ssh://a@b@h":             {user: "a@b", host: "h"}, // an account of a directory service
		"ssh://10.0.0.1/d@e:f":    {host: "10.0.0.1", dir: "/d@e:f"},
	} {
		if got, err := parse(url); err != nil || got != want {
			t.Errorf("%s: %+v, %v", url, got, err)
		}
	}
	for url, want := range map[string]error{
		"":                               errForm,
		"h":                              errForm,
		"ssh:h":                          errForm,
		"ssh://":                         errForm,
		"ssh:///d":                       errForm,
		"ssh://@h":                       errForm,
		"ssh://h:":                       errForm,
		"ssh://h:0":                      errForm,
		"ssh://h:65536":                  errForm,
		"ssh://h:ssh":                    errForm,
		"ssh://[::1":                     errForm,
		"ssh://-oProxyCommand=canary/":   errForm,
		"ssh://h;canary":                 errForm,
		"ssh://$(canary)":                errForm,
		"ssh://h?canary":                 errForm,
		"ssh://u:canary@h":               errPassword,
		"ssh://u:canary@canary@h:22/d":   errPassword,
		"ssh://u:canary\x00\n%zz@h:22/d": errPassword,
	} {
		_, err := parse(url)
		if !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", url, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("the error tells: %v", err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("ssh://u@h:22/d")
	f.Fuzz(func(t *testing.T, url string) {
		got, err := parse(url)
		if err == nil && (got.host == "" || strings.ContainsAny(got.host+got.user, " \n'\"$`;") || strings.HasPrefix(got.host, "-")) {
			t.Errorf("%q: %+v", url, got)
		}
	})
}
