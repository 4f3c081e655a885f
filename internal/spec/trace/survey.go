package trace

import (
	"github.com/combsched/comb/internal/core/model"
)

// survey gives jobs a class, deadlines and their user's estimate of the run time.
//
// Deadlines follow the generator of Chronus' author (Gao et al., SoCC'21): the
// first is uniform in [1.2 T, min(2 T, 14 days)] after submission (not before
// 1.2 T), at a full minute, and one hour later when it falls into the hour of the
// submission. A soft job has three more at 1.1, 1.2 and 1.5 times that, and all of
// them the rewards 10, 8, 5, 2; a strict job has the first alone, with 10. These
// steps are close to what the users of their survey accept on a promise of ten
// hours: 64, 40 and 18 % take a delay of 10, 20 and 50 % or more.
//
// Estimates have the errors that the survey's users admit: below 10 % for 21 % of
// them, 10-25 % for 38 %, 25-50 % for 29 %, above 50 % for 12 %; uniform within, to
// 90 % in the last, and too long as often as too short. These two are ours.
type survey struct {
	random random
	mix    weights
}

func (s *survey) apply(j *Job) {
	// The number of draws is fixed, so that one job does not change those after it.
	class, first, word := s.mix.pick(s.random), s.random.pcg.Uint64(), s.random.pcg.Uint64()
	j.Estimate = estimate(j.Duration, word)
	j.Class = []string{Strict, Soft, BestEffort}[class]
	if j.Class == BestEffort {
		return
	}
	d := firstDeadline(j, first)
	j.Deadlines = []model.Deadline{{After: d, Value: 10}}
	if j.Class == Soft {
		j.Deadlines = append(j.Deadlines, model.Deadline{After: d / 10 * 11, Value: 8}, model.Deadline{After: d / 10 * 12, Value: 5},
			model.Deadline{After: d / 10 * 15, Value: 2})
	}
}

// firstDeadline counts from submission.
func firstDeadline(j *Job, word uint64) model.Duration {
	low := j.Duration / 10 * 12
	high := max(low, min(2*j.Duration, 14*24*model.Hour))
	after := low + model.Duration(scale(word, int64(high-low)+1))
	submit := model.Duration(j.Submit)
	end := (submit + after + model.Minute/2) / model.Minute * model.Minute
	if end/model.Hour == submit/model.Hour {
		end += model.Hour
	}
	return end - submit
}

// scale maps a random word to a number below n.
func scale(word uint64, n int64) int64 { return big128(int64(word>>2), n, 1<<62) }

// estimate applies SurveyFactor to whole seconds, at least one.
func estimate(d model.Duration, word uint64) model.Duration {
	s := big128(int64(d/model.Second), SurveyFactor(word), 1_000_000)
	return model.Duration(max(s, 1)) * model.Second
}

// SurveyFactor maps a random word to the factor, in millionths, by which a user of Chronus'
// survey errs about a run time (see survey in this package).
func SurveyFactor(word uint64) int64 {
	bracket, inside, sign := word>>32, word>>1&(1<<31-1), word&1
	u := int64(bracket * 100 >> 32)
	low, high := int64(0), int64(0)
	switch {
	case u < 21:
		low, high = 0, 100_000
	case u < 59:
		low, high = 100_000, 250_000
	case u < 88:
		low, high = 250_000, 500_000
	default:
		low, high = 500_000, 900_000
	}
	by := low + int64(inside)*(high-low)>>31
	if sign == 1 {
		return 1_000_000 - by
	}
	return 1_000_000 + by
}
