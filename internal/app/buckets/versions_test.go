package buckets

import (
	"bytes"
	"net/url"
	"testing"

	"holdfast/internal/buckets"
)

// TestLocksAPI checks that operators lock versions, and delete a locked version only in governance mode with a
// separate flag.
func TestLocksAPI(t *testing.T) {
	t.Parallel()
	s, _ := openBuckets(t, t.TempDir())
	owner, photos, _ := s.stored(t, "a body")
	op := newOperator(t, s)
	bucket, versions := "/buckets/buckets/main/"+photos.Name, "/buckets/versions/main/"+photos.Name
	op.send(409, "object lock needs versioning", "POST", bucket+"/set-lock", `{}`)
	op.send(200, "", "POST", bucket+"/set-versioning", `{"versioning":"enabled"}`)
	for body, input := range map[string]string{
		`{"mode":"strict","days":1}`: "mode", `{"mode":"governance"}`: "days", `{"days":1}`: "days", `{"mode":"compliance","days":1,"years":1}`: "days", `{"mode":"compliance","days":36501}`: "days",
	} {
		op.send(422, `"pointer":"/`+input+`"`, "POST", bucket+"/set-lock", body)
	}
	op.send(200, "", "POST", bucket+"/set-lock", `{"mode":"governance","days":1}`)
	op.send(200, "new objects governance for 1 days", "GET", bucket, "")
	op.send(200, "", "POST", bucket+"/set-lock", `{}`)
	op.send(409, "object lock needs versioning", "POST", bucket+"/set-versioning", `{"versioning":"suspended"}`)
	op.send(200, `"object":"k","version":"null","state":"current"`, "GET", versions, "")

	one := versions + "/k/null"
	for body, input := range map[string]string{
		`{"mode":"strict","for":"1h"}`: "mode", `{"mode":"governance"}`: "for", `{"mode":"none","for":"1h"}`: "for", `{"mode":"governance","for":"-1h"}`: "for",
	} {
		op.send(422, `"pointer":"/`+input+`"`, "POST", one+"/retain", body)
	}
	op.send(422, `"pointer":"/hold"`, "POST", one+"/hold", `{"hold":"maybe"}`)
	op.send(404, "the version does not exist", "POST", versions+"/none/x/hold", `{"hold":"on"}`)
	op.send(404, "the version does not exist", "POST", versions+"/none/null/hold", `{"hold":"on"}`)
	op.send(200, "", "POST", one+"/hold", `{"hold":"on"}`)
	op.send(200, `"account":"main","bucket":"photos","object":"k","version":"null","state":"current"`, "GET", one, "")
	op.send(404, "the version does not exist", "GET", versions+"/k/x", "")
	op.send(404, "the version does not exist", "GET", versions+"/none/null", "")
	op.send(200, `"legalHold":"on"`, "GET", versions, "")
	op.send(409, "legal hold", "POST", one+"/delete", `{"bypassGovernance":true}`)
	op.send(409, "1 locked, e.g. version null of k (with a legal hold)", "POST", bucket+"/delete", "")
	op.send(200, "", "POST", one+"/hold", `{"hold":"off"}`)
	op.send(200, "", "POST", one+"/retain", `{"mode":"governance","for":"720h"}`)
	op.send(409, "1 locked, e.g. version null of k (until 20", "POST", "/buckets/accounts/main/delete", "")
	op.send(409, "governance mode until", "POST", one+"/retain", `{"mode":"none"}`)
	op.send(409, "governance mode until", "POST", one+"/delete", `{}`)
	op.send(200, "", "POST", one+"/retain", `{"mode":"governance","for":"1h","bypassGovernance":true}`)

	w, err := s.opened.PutObject(t.Context(), owner, photos, buckets.PutRequest{Object: buckets.Object{Name: "k"}, Size: 6}, text{bytes.NewReader([]byte("second"))})
	if err != nil {
		t.Fatal(err)
	}
	second := versions + "/k/" + string(w.Version)
	op.send(200, "", "POST", second+"/retain", `{"mode":"compliance","for":"1h"}`)
	op.send(200, `"state":"noncurrent"`, "GET", versions+"?limit=1&after="+url.QueryEscape(string(w.Version)+"/k"), "")
	op.send(422, `"parameter":"after"`, "GET", versions+"?after=x", "")
	op.send(409, "compliance mode until", "POST", second+"/delete", `{"bypassGovernance":true}`)
	op.send(409, "compliance mode until", "POST", second+"/retain", `{"mode":"none","bypassGovernance":true}`)
	op.send(200, "", "POST", one+"/delete", `{"bypassGovernance":true}`)
	op.send(404, "the version does not exist", "POST", one+"/delete", `{"bypassGovernance":true}`)
	op.send(200, `"version":"`+string(w.Version)+`","state":"current"`, "GET", versions, "")
}
