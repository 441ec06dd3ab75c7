package extstorage_test

import (
	"reflect"
	"testing"

	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
)

type preconditionCase struct {
	name         string
	precondition ext.Precondition
	revision     ext.Revision
	seq          ext.Seq
	want, delete error // nil or a *MismatchError, from Check and CheckDelete
}

// preconditionCases defines Precondition. Existing records have revision 3 and change 40.
func preconditionCases() []preconditionCase {
	revision := func(r ext.Revision) ext.Precondition { return ext.Precondition{Revision: ext.Some(r)} }
	match := func(seqs ...ext.Seq) ext.Precondition {
		return ext.Precondition{Match: ext.Tags{Set: true, Seqs: seqs}}
	}
	noneMatch := func(seqs ...ext.Seq) ext.Precondition {
		return ext.Precondition{NoneMatch: ext.Tags{Set: true, Seqs: seqs}}
	}
	exists := ext.Precondition{Match: ext.Tags{Set: true, Any: true}}
	absent := ext.Precondition{NoneMatch: ext.Tags{Set: true, Any: true}}
	both := ext.Precondition{Revision: ext.Some[ext.Revision](3), Match: ext.Tags{Set: true, Seqs: []ext.Seq{40}}}
	twoHeaders := ext.Precondition{Match: ext.Tags{Set: true, Any: true}, NoneMatch: ext.Tags{Set: true, Any: true}}

	body := &ext.MismatchError{Current: 3}
	header := &ext.MismatchError{Current: 3, Header: true}
	bodyGone := &ext.MismatchError{}
	headerGone := &ext.MismatchError{Header: true}
	return []preconditionCase{
		{"none", ext.Precondition{}, 3, 40, nil, nil},
		{"none, absent", ext.Precondition{}, 0, 0, nil, nil},

		{"its revision", revision(3), 3, 40, nil, nil},
		{"an earlier revision", revision(2), 3, 40, body, body},
		{"a later revision", revision(4), 3, 40, body, body},
		{"a revision, absent", revision(3), 0, 0, bodyGone, bodyGone},
		{"must not exist", revision(0), 3, 40, body, body},
		{"must not exist, absent", revision(0), 0, 0, nil, bodyGone},

		{"its tag", match(40), 3, 40, nil, nil},
		{"one of the tags", match(7, 40), 3, 40, nil, nil},
		{"the tag of an earlier write", match(39), 3, 40, header, header},
		{"the tag of an earlier life", match(40), 3, 90, header, header},
		{"no tag of ours", match(), 3, 40, header, header},
		{"a tag, absent", match(40), 0, 0, headerGone, headerGone},
		{"tag zero, absent", match(0), 0, 0, headerGone, headerGone},
		{"must exist", exists, 3, 40, nil, nil},
		{"must exist, absent", exists, 0, 0, headerGone, headerGone},

		{"not its tag", noneMatch(40), 3, 40, header, header},
		{"not one of the tags", noneMatch(7, 40), 3, 40, header, header},
		{"not the tag of an earlier write", noneMatch(39), 3, 40, nil, nil},
		{"not a tag, absent", noneMatch(40), 0, 0, nil, bodyGone},
		{"none of the records", absent, 3, 40, header, header},
		{"none of the records, absent", absent, 0, 0, nil, bodyGone},

		{"both hold", both, 3, 40, nil, nil},
		{"the revision holds, not the tag", both, 3, 41, header, header},
		{"the tag holds, not the revision", both, 4, 40, &ext.MismatchError{Current: 4}, &ext.MismatchError{Current: 4}},
		{"neither holds", both, 0, 0, headerGone, headerGone},
		{"headers that contradict", twoHeaders, 3, 40, header, header},
		{"headers that contradict, absent", twoHeaders, 0, 0, headerGone, headerGone},
	}
}

func TestPrecondition(t *testing.T) {
	t.Parallel()
	for _, tc := range preconditionCases() {
		if err := tc.precondition.Check(tc.revision, tc.seq); !reflect.DeepEqual(err, tc.want) {
			t.Errorf("%s: %#v, want %#v", tc.name, err, tc.want)
		}
		if err := tc.precondition.CheckDelete(tc.revision, tc.seq); !reflect.DeepEqual(err, tc.delete) {
			t.Errorf("%s, delete: %#v, want %#v", tc.name, err, tc.delete)
		}
	}
	for err, want := range map[*ext.MismatchError]struct {
		code errcode.Code
		text string
	}{
		{Current: 3}:               {errcode.Conflict, "revision mismatch: the current revision is 3"},
		{Current: 3, Header: true}: {errcode.Precondition, "revision mismatch: the current revision is 3"},
		{}:                         {errcode.Conflict, "revision mismatch: the record does not exist"},
	} {
		if errcode.Of(err) != want.code || err.Error() != want.text {
			t.Errorf("%+v is %v, %q", *err, errcode.Of(err), err)
		}
	}
}

func TestTags(t *testing.T) {
	t.Parallel()
	all := ext.Tags{Set: true, Any: true}
	tags := func(seqs ...ext.Seq) ext.Tags { return ext.Tags{Set: true, Seqs: seqs} }
	for header, want := range map[string]struct{ match, noneMatch ext.Tags }{
		"*":                           {all, all},
		" * ":                         {all, all},
		`"17"`:                        {tags(17), tags(17)},
		`W/"17"`:                      {tags(), tags(17)},
		`"17", W/"18" ,"19"`:          {tags(17, 19), tags(17, 18, 19)},
		` , "17",, "18", `:            {tags(17, 18), tags(17, 18)},
		`"17-gzip","abc","","018"`:    {tags(), tags()},
		`"a,b","5"`:                   {tags(5), tags(5)},
		`"99999999999999999999","+5"`: {tags(), tags()},
		"\"\xff\"":                    {tags(), tags()},
	} {
		if got, err := ext.ParseIfMatch(header); err != nil || !reflect.DeepEqual(got, want.match) {
			t.Errorf("If-Match: %s is %+v, %v", header, got, err)
		}
		if got, err := ext.ParseIfNoneMatch(header); err != nil || !reflect.DeepEqual(got, want.noneMatch) {
			t.Errorf("If-None-Match: %s is %+v, %v", header, got, err)
		}
	}
	for _, header := range []string{"", " ", ",", "17", "'17'", `"17`, `17"`, `w/"17"`, `W/`, `"1" "2"`, `*, "1"`, `"1", *`, `"a b"`, `"1"x`, "\"\n\"", `"1",x`} {
		if got, err := ext.ParseIfMatch(header); !errcode.Is(err, errcode.Invalid) {
			t.Errorf("If-Match: %s is %+v, %v", header, got, err)
		}
		if got, err := ext.ParseIfNoneMatch(header); !errcode.Is(err, errcode.Invalid) {
			t.Errorf("If-None-Match: %s is %+v, %v", header, got, err)
		}
	}
	if got := ext.Seq(1234567890123).ETag(); got != `"1234567890123"` {
		t.Errorf("the tag is %s", got)
	}
}

func FuzzTags(f *testing.F) {
	for _, s := range []string{"*", `"17", W/"18"`, `,"",`, `"17`, `"a,b" , "5"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		strong, err1 := ext.ParseIfMatch(header)
		weak, err2 := ext.ParseIfNoneMatch(header)
		if (err1 == nil) != (err2 == nil) {
			t.Fatalf("%q: %v and %v", header, err1, err2)
		}
		if err1 != nil {
			return
		}
		if !strong.Set || strong.Any != weak.Any || len(strong.Seqs) > len(weak.Seqs) {
			t.Fatalf("%q: %+v and %+v", header, strong, weak)
		}
		for _, seq := range weak.Seqs {
			if again, err := ext.ParseIfMatch(seq.ETag()); err != nil || len(again.Seqs) != 1 || again.Seqs[0] != seq {
				t.Fatalf("%q has %s, which is %+v, %v", header, seq.ETag(), again, err)
			}
		}
	})
}
