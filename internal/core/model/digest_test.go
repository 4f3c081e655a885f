package model

import (
	"reflect"
	"slices"
	"testing"
)

// Every field of every decision counts: a change of any of them changes the
// digest of its batch.
func TestDigestCoversEveryField(t *testing.T) {
	first := slices.IndexFunc(Kinds(), func(e Event) bool { return e.event() == Placed{}.event() })
	for _, e := range Kinds()[first:] {
		full := reflect.New(reflect.TypeOf(e)).Elem()
		fill(full)
		was := DigestOf([]Record{{Event: full.Interface().(Event)}})
		n := 0
		each(full, e.event(), func(path string) {
			n++
			if DigestOf([]Record{{Event: full.Interface().(Event)}}) == was {
				t.Errorf("a change of %s does not show", path)
			}
		})
		if n == 0 {
			t.Errorf("%T: nothing was changed", e)
		}
	}
}

// A batch is a sequence: order, number and what is empty count too.
func TestDigestIsOfASequence(t *testing.T) {
	a, b := Record{Event: Unreserved{Reason: "a"}}, Record{Event: Unreserved{Reason: "b"}}
	seen := map[string]bool{}
	for _, rs := range [][]Record{nil, {a}, {b}, {a, b}, {b, a}, {a, a}} {
		h := DigestOf(rs).Hex()
		d := string(h[:])
		if seen[d] || len(d) != 16 {
			t.Errorf("%v has the digest %q", rs, d)
		}
		seen[d] = true
	}
}

// fill gives every field a value that is not its zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Int:
		v.SetInt(7)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(7)
	}
}

// each calls f while one value inside v after the other is changed.
func each(v reflect.Value, path Kind, f func(path string)) {
	try := func(to reflect.Value) {
		was := reflect.New(v.Type()).Elem()
		was.Set(v)
		v.Set(to)
		f(string(path))
		v.Set(was)
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			each(v.Field(i), path+"."+Kind(v.Type().Field(i).Name), f)
		}
	case reflect.Pointer:
		try(reflect.Zero(v.Type()))
		each(v.Elem(), path, f)
	case reflect.Slice:
		try(v.Slice(0, 1))
		each(v.Index(1), path+"[1]", f)
	default:
		try(reflect.Zero(v.Type()))
	}
}

// Jobs that were journalled when a role named one SKU are read as what they were.
func TestSubmissionsOfVersion1(t *testing.T) {
	const data = `{"id":4,"job":{"name":"a","user":"u","vc":"v","priority":3,"roles":[` +
		`{"name":"w","tasks":2,"leaves":1,"sku":"V100","min_failed":1,"min_succeeded":-1,"launch":{"command":["x"]}},` +
		`{"name":"ps","tasks":1,"leaves":1,"min_failed":1,"min_succeeded":-1,"launch":{"command":["y"]}}],` +
		`"gangs":[{"name":"g","tasks":[0,1,2]}],"grace":5,"hints":{}},"meta":{}}`
	e, err := DecodeEvent("JobSubmitted", 1, []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	j := e.(JobSubmitted).Job
	if got := j.Roles; len(got) != 2 || len(got[0].SKUs) != 1 || got[0].SKUs[0] != "V100" || got[1].SKUs != nil || got[1].Name != "ps" {
		t.Errorf("the roles are %+v", got)
	}
	if j.Name != "a" || j.Priority != 3 || len(j.Gangs[0].Tasks) != 3 || e.(JobSubmitted).ID != 4 {
		t.Errorf("the job is %+v", j)
	}
	kind, version, again, err := EncodeEvent(e)
	if back, err2 := DecodeEvent(kind, version, again); err != nil || err2 != nil || version != 2 || !reflect.DeepEqual(back, e) {
		t.Errorf("written again as version %d: %+v, %v, %v", version, back, err, err2)
	}
	if _, err := DecodeEvent("JobSubmitted", 2, []byte(data)); err == nil {
		t.Error("version 2 reads a field of version 1")
	}
	if _, err := DecodeEvent("JobSubmitted", 3, again); err == nil {
		t.Error("a version of the future is read")
	}
}

// A budget that was not given is 3, as it was when 0 stood for that; 0 is none.
func TestBudgetsInTheJournal(t *testing.T) {
	for _, c := range []struct {
		vc   string
		want int32
	}{
		{`{"name":"a","policy":""}`, 3},
		{`{"name":"a","policy":"","budget":2}`, 2},
		{`{"name":"a","policy":"","budget":0}`, 0},
	} {
		data := `{"config":{"cluster":{"skus":null,"chains":null,"vcs":null},"vcs":[` + c.vc + `]},"meta":{}}`
		e, err := DecodeEvent("Configured", 1, []byte(data))
		if err != nil {
			t.Fatal(err)
		}
		_, version, written, err := EncodeEvent(e)
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeEvent("Configured", version, written)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range []Event{e, again} {
			if got := e.(Configured).Config.VCs[0].PreemptionBudget(); got != c.want {
				t.Errorf("%s: a budget of %d, want %d", c.vc, got, c.want)
			}
		}
	}
}
