package policy

import (
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/model"
)

// What a note says of a forecast is read again as it was written, also where no time is long
// enough, or any type will do.
func TestForecastsAreReadAsWritten(t *testing.T) {
	slow := []model.Throughput{{Model: "m", GPUs: 8, Rate: model.MaxRate}, {Model: "m", SKU: "b", GPUs: 1, Rate: 1}}
	for _, c := range []struct {
		to     place
		speeds []model.Throughput
		hours  model.Duration
		want   string
	}{
		{place{4, "a"}, nil, 1, "takes 1800s on 4 a: 0.500 of 3600s on 2 GPUs of any type (declared), speed taken to be linear in GPUs, as nothing is known of its model; "},
		{place{1, ""}, nil, 1, "takes 7200s on 1 GPU of any type: 2.000 of 3600s on 2 GPUs of any type (declared), speed taken to be linear in GPUs, as nothing is known of its model; "},
		{place{4, "b"}, slow, 100, "takes forever on 4 b: by the rate to 360000s on 2 GPUs of any type (declared), by the throughputs of its model; "},
	} {
		g := &model.GangView{Leaves: 2, Gangs: 1, Hints: &model.Hints{Model: "m", Duration: c.hours * model.Minute * 60}, Speeds: c.speeds, Ran: 100 * model.Second}
		f := profiler{}.forecastAt(g, c.to)
		f.gpusNow, f.creditedRun, f.credited = 1, 9*int64(model.Second), 3*int64(model.Second)
		text := string(f.text())
		is := strings.Replace(text, "did 3s of that by 9s, then on 1 GPU; ", "", 1)
		if is != c.want || is == text {
			t.Errorf("it says %q, want %q, and what it did", text, c.want)
		}
		got, rest := readForecast([]byte(text))
		if got.at != f.at || got.takes != f.takes || got.gpusNow != f.gpusNow || got.creditedRun != f.creditedRun || got.credited != f.credited || string(rest) != "" || string(got.text()) != text {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}
