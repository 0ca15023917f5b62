package agent

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxReset is how far away a reset is believed to be: limits by the month are
// the longest that there are. It also keeps a hostile number out of the report:
// a year beyond 9999 cannot be written as JSON.
const maxReset = 32 * 24 * time.Hour

// ResetAt is the time of a reset that a CLI tells in seconds since 1970; nil when
// it cannot be one.
func ResetAt(sec int64) *time.Time { return believed(time.Unix(sec, 0).UTC(), time.Now()) }

func believed(t, now time.Time) *time.Time {
	if t.Unix() < 1e9 || t.After(now.Add(maxReset)) {
		return nil
	}
	return &t
}

// until reads when a limit ends from the agent's words; nil when they do not
// say. A time without a zone is local's, a time without a date the next one. A
// time that is past is told all the same: the words may be old.
func until(text string, now time.Time, local *time.Location) *time.Time {
	if len(text) > 4096 {
		text = text[:4096]
	}
	if m := epochInText().FindStringSubmatch(text); m != nil {
		if sec, err := strconv.ParseInt(m[1], 10, 64); err == nil {
			return believed(time.Unix(sec, 0).UTC(), now)
		}
	}
	if at := afterInText().FindStringSubmatchIndex(text); at != nil {
		// Digits with one of these behind are half of a time or a date.
		half := at[3] < len(text) && strings.IndexByte(":/-.0123456789", text[at[3]]) >= 0 && text[at[3]-1] >= '0' && text[at[3]-1] <= '9'
		if d, ok := duration(text[at[2]:at[3]]); ok && !half {
			return believed(now.Add(d).UTC(), now)
		}
	}
	if m := isoInText().FindStringSubmatch(text); m != nil {
		return iso(m[1], m[2], m[3], now, local)
	}
	if m := headerInText().FindStringSubmatch(text); m != nil {
		if t, err := time.Parse(time.RFC1123, m[1]); err == nil {
			return believed(t.UTC(), now)
		}
	}
	if m := clockInText().FindStringSubmatch(text); m != nil {
		return clock(m, now, local)
	}
	return nil
}

// lazy is a regular expression that is compiled when it is first used: those of
// this package are not needed by a keeper, and cost its start milliseconds.
func lazy(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// The words before a time. What stands behind other words may be anything.
const when = `(?i)(?:resets?|try again|retry|retrying|retry[- ]after|available|wait)`

var (
	// "usage limit reached|1735689600", claude before 2.
	epochInText = lazy(`\|(1[6-9]\d{8}|2\d{9})\b`)
	// "try again in 2h 5m", "retry after 30 seconds", "Retry-After: 120".
	afterInText = lazy(when + `(?: again| your request)?(?:[:=]| in| for| after|)\s+(?:about |approximately )?((?:\d{1,9}(?:\.\d{1,9})?\s*[a-z]*(?:,|\s+and)?\s*){1,5})`)
	isoInText   = lazy(when + `(?:[:=]| at| on| after|)\s+(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(?:\.\d{1,9})?\s*\(?(Z|UTC|GMT|[+-]\d\d:?\d\d)?`)
	// "Retry-After: Wed, 21 Oct 2026 07:28:00 GMT", RFC 9110 10.2.3.
	headerInText = lazy(when + `[:=]?\s+([A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT)`)
	// "resets 3pm (Europe/Berlin)", "resets Apr 23 at 4pm (America/Recife)", "try
	// again at Jan 5th, 2027 10:32 AM", "resets Monday 15:00 UTC".
	clockInText = lazy(when + `:?\s+(?:at\s+|on\s+|after\s+)?` +
		`(?:(mon|tue|wed|thu|fri|sat|sun)[a-z]*,?\s+)?` +
		`(?:(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(?:(\d{4}),?\s+)?)?` +
		`(?:at\s+)?(\d{1,2})(?::(\d\d))?(?::\d\d)?(?:\s*(am|pm|a\.m\.|p\.m\.))?(?:\s*\(([^()]{1,40})\)|\s+([a-z]{3,4})\b)?`)
)

var durationUnits = map[string]time.Duration{
	"": time.Second, "ms": time.Millisecond, "s": time.Second, "sec": time.Second, "secs": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "mins": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hrs": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour,
}

var durationPart = lazy(`(\d+(?:\.\d+)?)\s*([a-z]*)`)

// duration reads "2h 5m", "6m0s", "1 day, 3 hours and 20 minutes", "7.66s",
// "30"; and nothing of "3pm".
func duration(s string) (sum time.Duration, ok bool) {
	for _, m := range durationPart().FindAllStringSubmatch(strings.ToLower(s), -1) {
		if m[2] == "and" {
			m[2] = ""
		}
		unit, known := durationUnits[m[2]]
		n, err := strconv.ParseFloat(m[1], 64)
		if !known || err != nil || n > 1e8 {
			return 0, false
		}
		sum, ok = sum+min(time.Duration(n*float64(unit)), 2*maxReset), true
	}
	return sum, ok
}

func iso(day, clock, zone string, now time.Time, local *time.Location) *time.Time {
	loc := local
	switch zone {
	case "":
	case "Z", "UTC", "GMT", "z", "utc", "gmt":
		loc = time.UTC
	default:
		t, err := time.Parse("-0700", strings.ReplaceAll(zone, ":", ""))
		if err != nil {
			return nil
		}
		loc = t.Location()
	}
	if len(clock) == len("15:04") {
		clock += ":00"
	}
	t, err := time.ParseInLocation("2006-01-02 15:04:05", day+" "+clock, loc)
	if err != nil {
		return nil
	}
	return believed(t.UTC(), now)
}

var months = map[string]time.Month{
	"jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6, "jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12,
}

var weekdays = map[string]time.Weekday{"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}

// justPast: a time that is past by no more is this one, not tomorrow's. The
// reset was told before it happened, and nobody waits a day for a late clock.
const justPast = time.Hour

// clock makes a time of the parts of clockInText.
func clock(m []string, now time.Time, local *time.Location) *time.Time {
	weekday, month, day, year := strings.ToLower(m[1]), strings.ToLower(m[2]), m[3], m[4]
	half := strings.ReplaceAll(strings.ToLower(m[7]), ".", "")
	if half == "" && m[6] == "" {
		return nil // "resets 3 times"
	}
	hour, _ := strconv.Atoi(m[5])
	minute, _ := strconv.Atoi(m[6])
	switch {
	case minute > 59, half != "" && (hour < 1 || hour > 12), hour > 23:
		return nil
	case half != "":
		hour %= 12
		if half == "pm" {
			hour += 12
		}
	}
	loc, ok := zone(m[8], m[9], local)
	if !ok {
		return nil // a time in a zone that is not known is no time
	}
	here := now.In(loc)
	y, mo, d := here.Date()
	switch {
	case month != "":
		mo = months[month]
		d, _ = strconv.Atoi(day)
		if year != "" {
			y, _ = strconv.Atoi(year)
			return believed(wall(y, mo, d, hour, minute, loc), now)
		}
		// The year that makes it nearest: in December "Jan 2" is the next one's.
		t := wall(y, mo, d, hour, minute, loc)
		for _, other := range []int{y - 1, y + 1} {
			if o := wall(other, mo, d, hour, minute, loc); o.Sub(now).Abs() < t.Sub(now).Abs() {
				t = o
			}
		}
		return believed(t, now)
	case weekday != "":
		d += int(weekdays[weekday]-here.Weekday()+7) % 7
		t := wall(y, mo, d, hour, minute, loc)
		if t.Before(now.Add(-justPast)) {
			t = wall(y, mo, d+7, hour, minute, loc)
		}
		return believed(t, now)
	}
	// By the calendar and not by 24 hours: a day may have 23 or 25.
	t := wall(y, mo, d-1, hour, minute, loc)
	for i := 0; t.Before(now.Add(-justPast)); i++ {
		t = wall(y, mo, d+i, hour, minute, loc)
	}
	return believed(t, now)
}

// wall is the time that a clock on the wall shows. One that is shown twice (the
// end of summer time) is the later one: the limit is over for certain then. One
// that is never shown (its beginning) is as if the clock had not been moved.
func wall(y int, mo time.Month, d, hour, minute int, loc *time.Location) time.Time {
	t := time.Date(y, mo, d, hour, minute, 0, 0, loc)
	if t.Hour() != hour%24 || t.Minute() != minute {
		return time.Date(y, mo, d, hour+1, minute, 0, 0, loc).UTC()
	}
	for _, gap := range []time.Duration{time.Hour, 30 * time.Minute} { // Lord Howe: half an hour
		if later := t.Add(gap); later.Hour() == hour && later.Minute() == minute {
			return later.UTC()
		}
	}
	return t.UTC()
}

// abbreviations that mean one thing in the words of a CLI. The names of other
// zones are those of the IANA database.
var abbreviations = map[string]int{
	"utc": 0, "gmt": 0, "est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7, "cet": 1, "cest": 2,
}

var offset = lazy(`(?i)^(?:utc|gmt)?([+-])(\d{1,2})(?::?(\d\d))?$`)

// zone finds the zone that stands in brackets, or a word behind the time.
func zone(named, word string, local *time.Location) (*time.Location, bool) {
	if h, ok := abbreviations[strings.ToLower(word)]; ok && named == "" {
		return time.FixedZone(strings.ToUpper(word), h*3600), true
	}
	if named == "" {
		return local, true
	}
	named = strings.TrimSpace(named)
	if h, ok := abbreviations[strings.ToLower(named)]; ok {
		return time.FixedZone(strings.ToUpper(named), h*3600), true
	}
	if m := offset().FindStringSubmatch(named); m != nil {
		h, _ := strconv.Atoi(m[2])
		min, _ := strconv.Atoi(m[3])
		sec := h*3600 + min*60
		if m[1] == "-" {
			sec = -sec
		}
		return time.FixedZone(named, sec), h <= 14 && min < 60
	}
	if strings.EqualFold(named, "local time") || strings.EqualFold(named, "local") {
		return local, true
	}
	loc, err := time.LoadLocation(named) // refuses what is no name of a zone
	return loc, err == nil
}
