package api

import (
	"slices"
	"strings"
	"testing"
)

// Of which drivers a device class can have devices is read off its expression; where that is not
// sure it is all.
func TestDriversOfAClass(t *testing.T) {
	for expression, want := range map[string]string{
		`device.driver == "a"`:                                               "a",
		`device.driver == 'a'`:                                               "a",
		` ( "a"==device.driver)`:                                             "a",
		`device.driver in ["a", 'b']`:                                        "a b",
		`device.driver == "a" || (device.driver == "b")`:                     "a b",
		`device.attributes["x"].y == "||" && device.driver == "a"`:           "a",
		`(device.driver == "a" && device.attributes["x"].?y.orValue(1) > 0)`: "a",
		`((device.driver == "a"))`:                                           "a",
		`device.attributes["a"].model == "device.driver == 'b'"`:             "?",
		`device.driver == "a" || device.attributes["a"].x`:                   "?",
		`device.driver == "a" && device.attributes["a"].x ? true : true`:     "?",
		`!(device.driver == "a")`:                                            "?",
		`device.driver != "a"`:                                               "?",
		`device.driver == "a" // "`:                                          "?",
		`device.driver == "\x61"`:                                            "?",
		`(device.driver == "a") == (device.driver == "b")`:                   "?",
		`device.driver.startsWith("a")`:                                      "?",
		`"`:                                                                  "?",
		``:                                                                   "?",
		strings.Repeat("(", 200) + `device.driver == "a"` + strings.Repeat(")", 200): "a",
	} {
		of, ok := driversIn(expression)
		if got := strings.Join(slices.Sorted(slices.Values(of)), " "); ok != (want != "?") || ok && got != want {
			t.Errorf("%.60s: %q, %v; want %q", expression, got, ok, want)
		}
	}
}
