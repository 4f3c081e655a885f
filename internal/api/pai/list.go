package pai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// Sizes of a list of jobs.
const (
	defaultJobs = 5000
	maxJobs     = 50_000
	mostSeen    = 200_000 // the newest jobs, at most this many, that one list looks at
	longList    = 1000    // jobs; a longer list keeps its turn until it is sent
	mostLists   = 8       // lists that are made at a time; each holds its answer in memory
	userLists   = 2       // lists of one user that are made at a time
	lineLists   = 64      // lists of one user that wait,
	allLists    = 1024    // and of all users
	listWait    = 2 * time.Second
)

// listQuery is the query of a list.
type listQuery struct {
	ask           rest.JobQuery
	states        []string
	priorities    []string
	keyword       string
	with, without []string // tags: any of these, and none of those
	offset, limit int
	order         func(a, b *summary) int // nil is newest first
	count         bool
}

var orders = map[string]func(a, b *summary) int{
	"jobName":         func(a, b *summary) int { return strings.Compare(a.Name, b.Name) },
	"submissionTime":  func(a, b *summary) int { return cmp.Compare(a.SubmissionTime, b.SubmissionTime) },
	"username":        func(a, b *summary) int { return strings.Compare(a.Username, b.Username) },
	"vc":              func(a, b *summary) int { return strings.Compare(a.VirtualCluster, b.VirtualCluster) },
	"retries":         func(a, b *summary) int { return cmp.Compare(a.Retries, b.Retries) },
	"totalTaskNumber": func(a, b *summary) int { return cmp.Compare(a.TotalTaskNumber, b.TotalTaskNumber) },
	"totalGpuNumber":  func(a, b *summary) int { return cmp.Compare(a.TotalGPUNumber, b.TotalGPUNumber) },
	"state":           func(a, b *summary) int { return strings.Compare(a.State, b.State) },
	"completionTime":  func(a, b *summary) int { return cmp.Compare(orZero(a.CompletedTime), orZero(b.CompletedTime)) },
}

func orZero(ms *int64) int64 {
	if ms == nil {
		return 0
	}
	return *ms
}

// parts are the values of a list separated by commas.
func parts(text string) []string {
	return slices.DeleteFunc(strings.Split(text, ","), func(s string) bool { return s == "" })
}

func parseList(v url.Values) (q *listQuery, err error) {
	q = &listQuery{states: parts(v.Get("state")), priorities: parts(v.Get("jobPriority")), keyword: strings.ToLower(v.Get("keyword")),
		with: parts(v.Get("tagsContain")), without: parts(v.Get("tagsNotContain")), limit: defaultJobs, count: v.Get("withTotalCount") == "true"}
	for _, user := range parts(v.Get("username")) {
		q.ask.Users = append(q.ask.Users, model.Subject(user))
	}
	for _, vc := range parts(v.Get("vc")) {
		q.ask.VCs = append(q.ask.VCs, cell.VCName(vc))
	}
	for _, s := range q.states {
		phases := phasesOf(s)
		if phases == nil {
			return nil, fmt.Errorf("state: %q is none: want WAITING, RUNNING, STOPPING, STOPPED, SUCCEEDED, FAILED or UNKNOWN", clip(s))
		}
		q.ask.States = append(q.ask.States, phases...)
	}
	slices.Sort(q.ask.States)
	q.ask.States = slices.Compact(q.ask.States)
	if q.offset, err = number(v, "offset", 0); err != nil {
		return nil, err
	}
	if q.limit, err = number(v, "limit", defaultJobs); err != nil {
		return nil, err
	}
	if q.limit > maxJobs {
		return nil, fmt.Errorf("limit: at most %d jobs can be asked for at a time", maxJobs)
	}
	return q, q.parseOrder(v.Get("order"))
}

func (q *listQuery) parseOrder(text string) error {
	if text == "" || text == "submissionTime,DESC" {
		return nil
	}
	field, way, _ := strings.Cut(text, ",")
	by := orders[field]
	if by == nil || way != "ASC" && way != "DESC" && way != "" {
		return fmt.Errorf("order: %q is none: want FIELD,ASC or FIELD,DESC, where FIELD is jobName, submissionTime, completionTime, username, vc, retries, totalTaskNumber, totalGpuNumber or state", clip(text))
	}
	q.order = by
	if way == "DESC" {
		q.order = func(a, b *summary) int { return by(b, a) }
	}
	return nil
}

func number(v url.Values, key string, or int) (int, error) {
	text := v.Get(key)
	if text == "" {
		return or, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s: %q is no number from 0", key, clip(text))
	}
	return n, nil
}

// wants reports whether a job matches those parts of the query that the app does not check.
func (q *listQuery) wants(s *summary) bool {
	among := func(tags []string) bool {
		return slices.ContainsFunc(tags, func(t string) bool { return slices.Contains(s.Tags, t) })
	}
	if len(q.states) > 0 && !slices.Contains(q.states, s.State) || len(q.with) > 0 && !among(q.with) || among(q.without) {
		return false
	}
	if len(q.priorities) > 0 {
		class := "default"
		if s.JobPriority != nil {
			class = *s.JobPriority
		}
		if !slices.Contains(q.priorities, class) && !(class == "test" && slices.Contains(q.priorities, "default")) {
			return false
		}
	}
	return q.keyword == "" || strings.Contains(strings.ToLower(s.Name), q.keyword) ||
		strings.Contains(strings.ToLower(s.Username), q.keyword) || strings.Contains(strings.ToLower(s.VirtualCluster), q.keyword)
}

func (h *Handler) listJobs(w http.ResponseWriter, r *http.Request) {
	q, err := parseList(r.URL.Query())
	if err != nil {
		refuse(w, http.StatusBadRequest, "InvalidParametersError", err.Error())
		return
	}
	begin, cancel := context.WithTimeout(r.Context(), listWait)
	free, err := h.lists.Wait(begin, principalOf(r).User)
	if cancel(); err != nil {
		setRetry(w, 1)
		refuse(w, http.StatusTooManyRequests, "UnknownError", fmt.Sprintf("%d lists of jobs are on their way, or %d of yours: try again, or ask for fewer jobs", mostLists, userLists))
		return
	}
	defer free()
	all := []*summary{}
	total, seen := 0, 0
	end := q.offset + q.limit
	err = h.app.Jobs(r.Context(), principalOf(r), &q.ask, func(j *rest.Job) bool {
		seen++
		s := summaryOf(j)
		if q.wants(s) {
			total++
			if q.order != nil || total > q.offset && total <= end {
				all = append(all, s)
			}
		}
		return seen < mostSeen && (q.order != nil || q.count || total < end)
	})
	var p *rest.Problem
	if err != nil && !(errors.As(err, &p) && p.Code == rest.CodeNotFound) { // a VC that does not exist has no jobs
		fail(w, err, codes{})
		return
	}
	if q.order != nil {
		slices.SortStableFunc(all, q.order)
		all = all[min(q.offset, len(all)):]
		all = all[:min(q.limit, len(all))]
	}
	if len(all) <= longList {
		free()
	}
	if q.count {
		answer(w, http.StatusOK, map[string]any{"totalCount": total, "data": all})
		return
	}
	answer(w, http.StatusOK, all)
}
