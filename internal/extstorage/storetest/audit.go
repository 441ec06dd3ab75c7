package storetest

import (
	"encoding/json"
	"testing"

	ext "holdfast/internal/extstorage"
)

func auditChecks() []check {
	return []check{
		{"PutsAndDeletes", auditEvents},
		{"OddNames", auditOddNames},
	}
}

func (u *user) events() []Event {
	u.t.Helper()
	t, ok := u.t.(testing.TB)
	if !ok {
		u.t.Fatalf("events can be read only in tests that are not random")
	}
	return u.h.Events(t, u.owner)
}

type audited struct {
	Operation     string `json:"operation"`
	Namespace     string `json:"namespace"`
	Key           string `json:"key"`
	SchemaVersion int    `json:"schemaVersion"`
	Caller        string `json:"caller"`
	CallerID      string `json:"callerId"`
	Revision      int64  `json:"revision"`
}

func (u *user) wantEvents(since int, want ...Event) {
	u.t.Helper()
	got := u.events()[since:]
	for i := range got {
		var p audited
		must(u.t, "payload", json.Unmarshal([]byte(got[i].Payload), &p))
		text, err := json.Marshal(p) // engines differ in white space
		must(u.t, "payload", err)
		got[i].Payload = string(text)
	}
	equal(u.t, "events", got, want)
}

func auditEvents(t *testing.T, u *user) {
	u.activate("log", u.register("log", `{}`).Version)
	validated := put("log", "b", `1`)
	validated.Schema = 1
	u.apply(put("s", "a", `1`), validated)
	u.now += second
	w := u.write(put("s", "a", `2`), look("s", "a"), del("log", "b"), del("s", "none"), expiring("s", "c", `1`, u.now+1))
	w.Caller = ext.Caller{Kind: "admin"}
	_, err := u.h.Store.Apply(t.Context(), u.owner, w)
	must(t, "Apply", err)
	at := u.now
	u.now++
	u.apply(del("s", "c"))
	u.apply(expiring("s", "d", `1`, u.now+1))
	u.now++
	u.apply(del("s", "d"))
	u.wantEvents(0,
		Event{1, ext.AuditPut, "s/a", `{"operation":"put","namespace":"s","key":"a","schemaVersion":0,"caller":"token","callerId":"7","revision":1}`, t0},
		Event{2, ext.AuditPut, "log/b", `{"operation":"put","namespace":"log","key":"b","schemaVersion":1,"caller":"token","callerId":"7","revision":1}`, t0},
		Event{3, ext.AuditPut, "s/a", `{"operation":"put","namespace":"s","key":"a","schemaVersion":0,"caller":"admin","callerId":"","revision":2}`, at},
		Event{4, ext.AuditDelete, "log/b", `{"operation":"delete","namespace":"log","key":"b","schemaVersion":0,"caller":"admin","callerId":"","revision":1}`, at},
		Event{5, ext.AuditPut, "s/c", `{"operation":"put","namespace":"s","key":"c","schemaVersion":0,"caller":"admin","callerId":"","revision":1}`, at},
		Event{7, ext.AuditPut, "s/d", `{"operation":"put","namespace":"s","key":"d","schemaVersion":0,"caller":"token","callerId":"7","revision":1}`, at + 1},
	)
}

func auditOddNames(t *testing.T, u *user) {
	for _, key := range oddKeys {
		w := u.write(put("s", key, `1`))
		w.Caller = ext.Caller{Kind: "runner", ID: key + `"\` + "\n"}
		_, err := u.h.Store.Apply(t.Context(), u.owner, w)
		must(t, "Apply", err)
	}
	events := u.events()
	equal(t, "events", len(events), len(oddKeys))
	for i, e := range events {
		var p audited
		must(t, "payload", json.Unmarshal([]byte(e.Payload), &p))
		equal(t, "payload", p, audited{Operation: "put", Namespace: "s", Key: oddKeys[i], Caller: "runner", CallerID: oddKeys[i] + `"\` + "\n", Revision: 1})
		equal(t, "key", e.Key, "s/"+oddKeys[i])
	}
}

func versionOf(t *testing.T, e Event) int {
	t.Helper()
	var p audited
	must(t, "payload", json.Unmarshal([]byte(e.Payload), &p))
	return p.SchemaVersion
}
