package agent

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Classify sorts a failure by the HTTP status, when there was one, and by the
// agent's words. status 0 means that it is not known; one that the text tells
// ("429 …", "unexpected status 401 …") is found.
//
// Billing and window limits come as 429 like any other rate limit; a retry of
// them is useless, so the words are looked at before the number.
func Classify(status int, text string) Class {
	c, _ := classify(status, text)
	return c
}

// Fail makes a Failure of the agent's words: class, status and, for a rate
// limit whose words tell when it ends, Until.
func Fail(status int, text string) *Failure {
	class, status := classify(status, text)
	f := &Failure{Class: class, Status: status, Text: Clip(text)}
	if class == RateLimit {
		f.Until = until(text)
	}
	return f
}

func classify(status int, text string) (Class, int) {
	if len(text) > 4096 {
		text = text[:4096]
	}
	t := strings.ToLower(strings.ReplaceAll(text, "’", "'"))
	if status == 0 {
		if m := statusInText.FindStringSubmatch(t); m != nil {
			status, _ = strconv.Atoi(m[1] + m[2])
		}
	}
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(t, w) {
				return true
			}
		}
		return false
	}
	switch {
	case status == 402,
		has("credit balance is too low", "insufficient_quota", "quota exceeded", "exceeded your current quota", "billing", "payment required", "out of credits"):
		return Billing, status
	case status == 401, status == 403,
		has("invalid api key", "not logged in", "please run /login", "authentication_failed", "authentication_error", "unauthorized",
			"oauth token has expired", "incorrect api key", "invalid x-api-key", "no api key found"):
		return Auth, status
	case status == 429,
		has("rate limit", "rate_limit", "usage limit", "session limit", "weekly limit", "limit reached", "too many requests"):
		return RateLimit, status
	case status >= 500 && status <= 599,
		has("overloaded", "high demand", "server_error", "internal server error", "service unavailable", "bad gateway"):
		return Overloaded, status
	case has("connection refused", "econnrefused", "econnreset", "enotfound", "etimedout", "connection reset", "connection error",
		"other side closed", "socket hang up", "network error", "stream disconnected", "fetch failed", "idle timeout waiting",
		"connection closed", "unable to connect", "dns error", "transport error"):
		return Network, status
	case has("maximum number of turns", "maximum budget", "max_turns", "budget_exhausted"):
		return Limit, status
	case has("interrupted by user", "operation was aborted", "aborted_streaming", "aborted_tools"):
		return Cancelled, status
	}
	return Other, status
}

// A status is believed where a CLI writes one: at the beginning ("429 …"),
// or after a word that says so. Any three digits elsewhere may be a count.
var statusInText = regexp.MustCompile(`^([45]\d\d)\b|(?:status:?|error:?|http|code:?)[ :=(]{0,2}([45]\d\d)\b`)

var epochInText = regexp.MustCompile(`\|(1[6-9]\d{8}|2\d{9})\b`)

// until reads the time that some limits tell: "usage limit reached|1735689600".
func until(text string) *time.Time {
	m := epochInText.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	sec, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return nil
	}
	t := time.Unix(sec, 0).UTC()
	return &t
}
