package s3api

import (
	"cmp"
	"net/http"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/web"
)

// keepAliveEvery is short enough for most clients and proxies, which time out after 60 seconds.
const keepAliveEvery = 10 * time.Second

// keepAlive sends status 200 and then spaces during a long operation, as S3 does. If the operation then fails, the
// error is sent as the body, which SDKs check.
type keepAlive struct {
	x       *request
	begun   bool          // the status was sent
	ending  chan struct{} // closed by stop
	stopped chan struct{}
}

// keepAlive begins to send spaces. Until stop returns, nothing else may use x.out.
func (x *request) keepAlive() *keepAlive {
	k := &keepAlive{x: x, ending: make(chan struct{}), stopped: make(chan struct{})}
	go k.run()
	return k
}

// run sends until stop.
func (k *keepAlive) run() {
	defer close(k.stopped)
	t := time.NewTicker(cmp.Or(k.x.KeepAlive, keepAliveEvery))
	defer t.Stop()
	for {
		select {
		case <-k.ending:
			return
		case <-t.C:
			k.send()
		}
	}
}

// send writes the status and the XML header first, then spaces, which XML allows before the root element.
func (k *keepAlive) send() {
	out, text := k.x.out, " "
	if !k.begun {
		k.begun = true
		out.Header().Set("Content-Type", "application/xml")
		out.WriteHeader(http.StatusOK)
		text = xmlHeader
	}
	_, _ = out.Write([]byte(text))
	_ = http.NewResponseController(out).Flush()
}

// stop waits until nothing more is sent. It may be called repeatedly.
func (k *keepAlive) stop() {
	select {
	case <-k.ending:
	default:
		close(k.ending)
	}
	<-k.stopped
}

// ready ends the spaces before the request waits for its slot and commits.
func (k *keepAlive) ready() error {
	k.stop()
	return k.x.ready()
}

// writeExpiration sets headers only while no status was sent.
func (k *keepAlive) writeExpiration(o *buckets.Object, err error) {
	if k.stop(); !k.begun && err == nil {
		k.x.writeExpiration(o)
	}
}

// answer returns *web.Answered if the status was already sent.
func (k *keepAlive) answer(d *document, err error) error {
	k.stop()
	switch {
	case !k.begun && err != nil:
		return err
	case !k.begun:
		sendXML(k.x.out, http.StatusOK, d)
		return nil
	case err != nil:
		d = errorDocument(k.x.out.Header(), k.x.in, asError(k.x.explain(err)))
		err = &web.Answered{Err: err}
	}
	_, _ = k.x.out.Write(d.bytes()[len(xmlHeader):])
	return err
}
