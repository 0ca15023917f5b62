package agent

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones must not depend on the machine
)

// The words of real CLIs: claude (issues 2087, 42042, 51981, 79136 of
// claude-code, and its binary), codex 0.171.0, and what HTTP and other APIs say.
func TestUntil(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) // a Monday
	const none = ""
	for text, want := range map[string]string{
		"Claude AI usage limit reached|1796050000":                                    "2026-11-30 14:46:40",
		"Claude AI usage limit reached|1766502000":                                    "2025-12-23 15:00:00", // old words
		"You've hit your limit · resets 8pm (Europe/Berlin)":                          "2026-11-30 19:00:00",
		"You've hit your session limit · resets 10:30pm (Europe/Berlin)":              "2026-11-30 21:30:00",
		"You've hit your limit · resets 1:30am (Asia/Dhaka)":                          "2026-11-30 19:30:00", // tomorrow there
		"Claude usage limit reached. Your limit will reset at 9am (America/Chicago).": "2026-11-30 15:00:00",
		"Your limit will reset at 1pm (Etc/GMT+5).":                                   "2026-11-30 18:00:00",
		"You've hit your limit · resets Dec 3 at 4pm (America/Recife)":                "2026-12-03 19:00:00",
		"limit · resets Dec 3, 4:15pm (America/Recife)":                               "2026-12-03 19:15:00",
		"resets Jan 2 at 4pm (UTC)":                                                   none, // beyond what is believed
		"resets Dec 28, 4pm (UTC)":                                                    "2026-12-28 16:00:00",
		"You've hit your usage limit. Try again at 3:05 PM.":                          "2026-11-30 18:05:00", // local: UTC-3
		"You've hit your usage limit or try again at Dec 5th, 2026 10:32 AM.":         "2026-12-05 13:32:00",
		"You've hit your usage limit. Try again in 2 days 3 hours 5 minutes.":         "2026-12-02 15:05:00",
		"Rate limit reached for gpt-5. Please try again in 7.5s. Visit https://x":     "2026-11-30 12:00:07.5",
		"Please try again in 6m0s.":                                                   "2026-11-30 12:06:00",
		"try again in 2h 5m":                                                          "2026-11-30 14:05:00",
		"try again in 1 hour and 20 minutes":                                          "2026-11-30 13:20:00",
		"Please retry in 34.07s.":                                                     "2026-11-30 12:00:34.07",
		"429, Retry-After: 120":                                                       "2026-11-30 12:02:00",
		"retry after 30 seconds":                                                      "2026-11-30 12:00:30",
		"Retry-After: Mon, 30 Nov 2026 13:00:00 GMT":                                  "2026-11-30 13:00:00",
		"resets at 2026-12-01T10:00:00Z":                                              "2026-12-01 10:00:00",
		"resets at 2026-12-01 10:00 (+02:00)":                                         "2026-12-01 08:00:00",
		"resets on Tuesday 9am (UTC)":                                                 "2026-12-01 09:00:00",
		"resets Mon 9am (UTC)":                                                        "2026-12-07 09:00:00",
		"resets 15:00 UTC":                                                            "2026-11-30 15:00:00",
		"resets 7am PST":                                                              "2026-11-30 15:00:00",
		"resets 3pm (GMT+2)":                                                          "2026-11-30 13:00:00",
		"resets 12am (UTC)":                                                           "2026-12-01 00:00:00",
		"resets 12pm (UTC)":                                                           "2026-11-30 12:00:00",
		"resets 11:30am (UTC)":                                                        "2026-11-30 11:30:00", // just now, not tomorrow
		"resets 10:30am (UTC)":                                                        "2026-12-01 10:30:00",
		// What is no time is none; a zone that nobody knows makes no time.
		"resets 3pm (Atlantis/Centre)":         none,
		"resets 3pm (../../etc/passwd)":        none,
		"resets 25:00 (UTC)":                   none,
		"resets 13pm (UTC)":                    none,
		"resets 3 times":                       none,
		"try again in a moment":                none,
		"Try again later.":                     none,
		"retry after 2 failed attempts":        none,
		"available 24/7":                       none,
		"limit reached|9999999999":             none,
		"try again in 99999999999999999 hours": none,
		"try again in 999999 days":             none,
		"resets at 9999-12-31T23:59:59Z":       none,
		"":                                     none,
	} {
		got := until(text, now, time.FixedZone("", -3*3600))
		switch {
		case want == none && got != nil:
			t.Errorf("%q: %v", text, got)
		case want != none && (got == nil || got.UTC().Format("2006-01-02 15:04:05.999") != want):
			t.Errorf("%q: %v, want %s", text, got, want)
		}
	}
}

// Where the clocks are moved (claude-auto-resume#27).
func TestUntilAcrossSummerTime(t *testing.T) {
	for _, c := range []struct{ now, text, want string }{
		// Berlin goes from 2:00 to 3:00 at 1:00 UTC on 2027-03-28.
		{"2027-03-27T22:00:00Z", "resets 4am (Europe/Berlin)", "2027-03-28T02:00:00Z"},
		{"2027-03-27T22:00:00Z", "resets 2:30am (Europe/Berlin)", "2027-03-28T01:30:00Z"}, // is never shown
		{"2027-03-27T12:00:00Z", "resets 12:30pm (Europe/Berlin)", "2027-03-27T11:30:00Z"},
		{"2027-03-27T13:00:00Z", "resets 12:30pm (Europe/Berlin)", "2027-03-28T10:30:00Z"}, // a day of 23 hours
		// From 3:00 to 2:00 at 1:00 UTC on 2027-10-31: 2:30 is shown twice.
		{"2027-10-30T22:00:00Z", "resets 2:30am (Europe/Berlin)", "2027-10-31T01:30:00Z"},
		{"2027-10-30T10:00:00Z", "resets 9am (Europe/Berlin)", "2027-10-31T08:00:00Z"}, // a day of 25 hours
		{"2027-03-14T05:00:00Z", "resets 2:30am (America/New_York)", "2027-03-14T07:30:00Z"},
		{"2027-11-07T02:00:00Z", "resets 1:30am (America/New_York)", "2027-11-07T06:30:00Z"},
		{"2027-12-31T23:30:00Z", "resets 1am (UTC)", "2028-01-01T01:00:00Z"},
		{"2026-12-31T20:00:00Z", "resets Jan 2 at 4pm (UTC)", "2027-01-02T16:00:00Z"},
		{"2027-01-01T01:00:00Z", "resets Dec 31 at 4pm (UTC)", "2026-12-31T16:00:00Z"}, // old words
	} {
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		if got := until(c.text, now, time.UTC); got == nil || got.Format(time.RFC3339) != c.want {
			t.Errorf("at %s, %q: %v, want %s", c.now, c.text, got, c.want)
		}
	}
}

func TestResetAt(t *testing.T) {
	for _, sec := range []int64{0, -1, 5, 1 << 40, 1 << 62} {
		if at := ResetAt(sec); at != nil {
			t.Errorf("%d: %v", sec, at)
		}
	}
	soon := time.Now().Add(time.Hour).Unix()
	if at := ResetAt(soon); at == nil || at.Unix() != soon {
		t.Errorf("%v", at)
	}
}

// Whatever the words are, the answer is no time or one that JSON can hold.
func FuzzUntil(f *testing.F) {
	for _, s := range []string{"resets 3pm (Europe/Berlin)", "try again in 2h 5m", "|1796050000", "resets Dec 3 at 4pm (UTC)", "resets at 2026-12-01T10:00:00Z"} {
		f.Add(s)
	}
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s string) {
		if at := until(s, now, time.UTC); at != nil {
			if _, err := at.MarshalJSON(); err != nil || at.After(now.Add(maxReset)) {
				t.Errorf("%q: %v %v", s, at, err)
			}
		}
	})
}

func TestFailUntil(t *testing.T) {
	f := Fail(429, "You've hit your limit · resets 8pm (Europe/Berlin)")
	if f.Class != RateLimit || f.Until == nil || !strings.Contains(f.Text, "resets 8pm (Europe/Berlin)") {
		t.Errorf("%+v", f)
	}
	// A quota with an end is a limit, one without is a matter of money.
	if f := Fail(429, "You exceeded your current quota. Please retry in 34s."); f.Class != RateLimit || f.Until == nil {
		t.Errorf("%+v", f)
	}
	if f := Fail(429, "You exceeded your current quota, please check your plan"); f.Class != Billing {
		t.Errorf("%+v", f)
	}
	if f := Fail(401, "Unauthorized, try again in 5m"); f.Class != Auth || f.Until != nil {
		t.Errorf("%+v", f)
	}
}
