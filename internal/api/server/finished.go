package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

// finishedJobs returns up to one more than a page of ended jobs, newest first, or in the
// order of key.
func (s *Server) finishedJobs(ctx context.Context, f *jobFilter, order *engine.FinishedOrder, key func(*model.JobStatus) string) ([]model.JobStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	ask := engine.FinishedFilter{Users: f.users, VCs: f.vcs, Name: f.name, Tag: f.tag, Within: f.sight.Within(), Before: f.before, Limit: f.limit + 1, Order: order}
	if len(f.states) > 0 {
		for _, p := range f.states {
			if p.Ended() {
				ask.Phases = append(ask.Phases, p)
			}
		}
		if len(ask.Phases) == 0 {
			return nil, nil
		}
	}
	var out []model.JobStatus
	for {
		page, next, err := s.store.Finished(ctx, ask)
		if err != nil {
			return nil, s.fail(err)
		}
		for i := range page {
			if j := &page[i]; f.sight.Sees(j.VC, j.User) { // the store has checked all else
				out = append(out, *j)
			}
		}
		if next == 0 || len(out) > f.limit {
			return out, nil
		}
		if order == nil {
			ask.Before = next
			continue
		}
		order.After = &engine.FinishedPlace{Key: key(&page[len(page)-1]), Job: next}
	}
}

// order is an order of a list other than newest first, and the place after which its page
// begins. However many jobs there are, only those of the page are held in memory. A job that
// moves meanwhile may be in two pages or in none.
type order struct {
	by    string
	down  bool
	after *engine.FinishedPlace
}

// orderOf reads an order and its cursor: a job's number, and the value by which the job was
// ordered: "17.train".
func (in *listInput) orderOf() (order, error) {
	o := order{by: strings.TrimPrefix(in.Sort, "-"), down: strings.HasPrefix(in.Sort, "-")}
	if o.by == "place" && len(in.VC) != 1 {
		return o, invalid("query.sort", "place is the order of one virtual cluster: name one as vc")
	}
	if in.Cursor == "" {
		return o, nil
	}
	number, key, _ := strings.Cut(in.Cursor, ".")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 {
		return o, invalid("query.cursor", "not a cursor: pass the field next of the page before")
	}
	o.after = &engine.FinishedPlace{Key: key, Job: model.JobID(n)}
	return o, nil
}

// compare orders two places.
func (o *order) compare(a, b engine.FinishedPlace) int {
	way := 1
	if o.down {
		way = -1
	}
	return way * cmp.Or(strings.Compare(a.Key, b.Key), cmp.Compare(a.Job, b.Job))
}

// keyOf is the value by which a job is ordered.
func (o *order) keyOf(st *core.State, id model.JobID, j *model.Job) string {
	switch o.by {
	case "name":
		return string(j.Name)
	case "user":
		return string(j.User)
	case "vc":
		return string(j.VC)
	case "gpus":
		return number(st.Takes(id))
	case "left":
		if status, ok := st.Job(id); ok && status.Outlook != nil && status.Outlook.Ends != 0 {
			return number(int64(status.Outlook.Ends))
		}
		return lastKey
	}
	return ""
}

// lastKey sorts after all numbers.
const lastKey = "9223372036854775807"

// number writes a number so that its text sorts like the number.
func number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	return "0000000000000000000"[:len(lastKey)-len(digits)] + digits
}

// pastKey is the value by which an ended job is ordered.
func (o *order) pastKey(j *model.JobStatus) string {
	return o.keyOf(nil, j.ID, &model.Job{Name: j.Name, User: j.User, VC: j.VC})
}

// ofLive reports whether only jobs that have not ended have the order.
func (o *order) ofLive() bool {
	return o.by == "left" || o.by == "place" || o.by == "gpus"
}

// sortedJobs returns a page of jobs in an order that is not that of their numbers.
func (s *Server) sortedJobs(ctx context.Context, in *listInput, f *jobFilter) (*body[rest.JobList], error) {
	o, err := in.orderOf()
	if err != nil {
		return nil, err
	}
	out := rest.JobList{Jobs: []rest.Job{}}
	places := map[model.JobID]engine.FinishedPlace{}
	known := map[string]bool{}
	err = s.read(ctx, in.after(), func(st *core.State) {
		out.Seq = st.Seq()
		f.noteVCs(st, known)
		asOf := st.AsOf(s.opts.Now())
		defer withReader(st, people.Subject(ctx), f.sight)()
		for _, p := range o.first(asOf, st, f) { // the queue is that of st, since asOf would compute its order anew
			if j, ok := asOf.Job(p.Job); ok {
				out.Jobs = append(out.Jobs, withReason(st, people.Subject(ctx), j))
				places[p.Job] = p
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if err := s.checkVCs(ctx, f.vcs, known); err != nil {
		return nil, err
	}
	if !o.ofLive() {
		if err := s.addPast(ctx, &out, places, &o, f); err != nil {
			return nil, err
		}
	}
	if len(out.Jobs) > f.limit {
		out.Jobs = out.Jobs[:f.limit]
		last := places[out.Jobs[f.limit-1].ID]
		out.Next = fmt.Sprintf("%d.%s", last.Job, last.Key)
	}
	if err := (tags{s}).add(ctx, withoutNotices(out.Jobs)); err != nil {
		return nil, err
	}
	if err := (temporaryConfigs{s}).tell(ctx, out.Jobs); err != nil {
		return nil, err
	}
	return answer(out), nil
}

// addPast adds ended jobs to a page of other jobs, each at its place.
func (s *Server) addPast(ctx context.Context, out *rest.JobList, places map[model.JobID]engine.FinishedPlace, o *order, f *jobFilter) error {
	past := engine.FinishedOrder{By: o.by, Down: o.down, After: o.after}
	if o.by == "submitted" {
		past.By = ""
	}
	finished, err := s.finishedJobs(ctx, f, &past, o.pastKey)
	if err != nil {
		return err
	}
	for _, j := range finished {
		// A job that ended since the replica was read is in both lists; then the ended one
		// counts.
		out.Jobs = slices.DeleteFunc(out.Jobs, func(l rest.Job) bool { return l.ID == j.ID })
		out.Jobs = append(out.Jobs, jobOf(people.Subject(ctx), j))
		places[j.ID] = engine.FinishedPlace{Key: o.pastKey(&j), Job: j.ID}
	}
	slices.SortFunc(out.Jobs, func(a, b rest.Job) int { return o.compare(places[a.ID], places[b.ID]) })
	return nil
}

// first returns the places of up to one more than a page of jobs that have not ended.
func (o *order) first(asOf, shown *core.State, f *jobFilter) []engine.FinishedPlace {
	if o.by == "place" {
		return o.inLine(asOf, shown, f)
	}
	best := make([]engine.FinishedPlace, 0, 2*(f.limit+1))
	full := false
	cut := func() {
		slices.SortFunc(best, o.compare)
		full = len(best) > f.limit
		best = best[:min(len(best), f.limit+1)]
	}
	for range asOf.Newest(func(id model.JobID, j *model.Job, phase model.Phase) bool {
		if !f.wants(id, j, phase) {
			return false
		}
		p := engine.FinishedPlace{Key: lastKey, Job: id}
		if o.by != "left" || phase == model.Active { // for all others it is unknown
			p.Key = o.keyOf(asOf, id, j)
		}
		if o.after != nil && o.compare(p, *o.after) <= 0 || full && o.compare(p, best[f.limit]) > 0 {
			return false
		}
		if best = append(best, p); len(best) == cap(best) {
			cut()
		}
		return false
	}) {
	}
	cut()
	return best
}

// inLine returns up to one more than a page of the jobs that wait in a virtual cluster, in
// the order in which they are served. A page begins after its cursor's job. If that job no
// longer waits, it begins after as many jobs as were before it.
func (o *order) inLine(asOf, shown *core.State, f *jobFilter) (out []engine.FinishedPlace) {
	line, from, at := shown.InLine(cell.VCName(f.vcs[0])), 0, 0
	if o.after != nil {
		from, _ = strconv.Atoi(o.after.Key)
		for id := range line {
			at++
			if spec, ok := asOf.Spec(id); ok && id == o.after.Job && f.wants(id, spec, model.Waiting) { // else a cursor would reveal hidden jobs
				from = at
				break
			}
		}
	}
	at = 0
	for id := range line {
		if at++; at <= from {
			continue
		}
		if spec, ok := asOf.Spec(id); !ok || !f.wants(id, spec, model.Waiting) {
			continue
		}
		if j, ok := asOf.Job(id); !ok || j.Phase != model.Waiting {
			continue
		}
		if out = append(out, engine.FinishedPlace{Key: strconv.Itoa(at - 1), Job: id}); len(out) > f.limit {
			break
		}
	}
	return out
}

// finishedJob returns an ended job by number, or a user's last one of a name.
func (s *Server) finishedJob(ctx context.Context, id model.JobID, user model.Subject, name model.JobName) (model.JobStatus, bool, error) {
	if id > 0 {
		j, ok, err := s.store.Job(ctx, id)
		if err != nil {
			return j, false, s.fail(err)
		}
		if ok {
			return j, true, nil
		}
	}
	j, ok, err := s.store.LastNamed(ctx, user, name)
	if err != nil {
		return j, false, s.fail(err)
	}
	return j, ok, nil
}

// history returns the next events after seq: at most limit events of one job, or about one
// piece in bytes of all jobs (job 0).
func (s *Server) history(ctx context.Context, seq uint64, job model.JobID, limit int) ([]model.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	if job != 0 {
		return s.store.JobEvents(ctx, job, seq, limit)
	}
	return s.store.Events(ctx, seq, largePiece)
}

// tags has the routes about the tags of jobs.
type tags struct{ *Server }

const mostTags = 32 // of one job

type tagInput struct {
	Ref string `path:"ref" doc:"A job's number, a NAME of the caller's, or USER~NAME"`
	Tag string `path:"tag" doc:"Up to 64 letters, digits and . _ : = @ + -"`
}

func (s tags) register(api huma.API, op func(id, method, path, summary string) huma.Operation) {
	set := func(on bool) func(context.Context, *tagInput) (*body[rest.Tagged], error) {
		return func(ctx context.Context, in *tagInput) (*body[rest.Tagged], error) {
			j, err := s.find(ctx, in.Ref, 0)
			if err != nil {
				return nil, err
			}
			list, err := s.set(ctx, &j, in.Tag, on)
			if err != nil {
				return nil, err
			}
			return answer(rest.Tagged{Tags: list}), nil
		}
	}
	huma.Register(api, op("tag-job", http.MethodPut, "/jobs/{ref}/tags/{tag}", "Give a job a tag"), set(true))
	huma.Register(api, op("untag-job", http.MethodDelete, "/jobs/{ref}/tags/{tag}", "Take a tag off a job"), set(false))
}

// set adds a tag to a job, or removes it, and returns the tags that it then has.
func (s tags) set(ctx context.Context, j *rest.Job, tag string, on bool) ([]string, error) {
	if why := rest.CheckTag(tag); why != "" {
		return nil, rest.NewProblem(http.StatusUnprocessableEntity, rest.CodeInvalid, why)
	}
	if j.User != people.Subject(ctx) { // first, since nothing is done that is not recorded
		if err := s.opts.People.Note(ctx, lineOfTag(ctx, j, tag, on)); err != nil {
			return nil, s.fail(err)
		}
	}
	err := s.opts.Tags.Tag(ctx, j.ID, tag, on, mostTags)
	if errors.Is(err, engine.ErrTooMany) {
		return nil, rest.NewProblem(http.StatusConflict, rest.CodeConflict, fmt.Sprintf("job %s has %d tags, the most that one may have: take one off first", j.Ref, mostTags))
	}
	if err != nil {
		return nil, s.fail(err)
	}
	of, err := s.opts.Tags.Of(ctx, []model.JobID{j.ID})
	if err != nil {
		return nil, s.fail(err)
	}
	return append([]string{}, of[j.ID]...), nil
}

// add adds their tags to the jobs of an answer.
func (s tags) add(ctx context.Context, jobs []rest.Job) error {
	if s.opts.Tags == nil {
		return nil
	}
	ids := make([]model.JobID, len(jobs))
	for i := range jobs {
		ids[i] = jobs[i].ID
	}
	of, err := s.opts.Tags.Of(ctx, ids)
	if err != nil {
		return s.fail(err)
	}
	for i := range jobs {
		jobs[i].Tags = of[jobs[i].ID]
	}
	return nil
}

// removedOf says when the files of a job were removed; nil where they were not.
func removedOf(ctx context.Context, s *Server, id model.JobID) (*rest.Removed, error) {
	r, ok, err := s.store.Removed(ctx, id)
	if err != nil || !ok {
		return nil, err
	}
	return &rest.Removed{At: r.At, Rule: r.Rule}, nil
}
