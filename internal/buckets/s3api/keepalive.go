package s3api

import (
	"cmp"
	"net/http"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/web"
)

// keepAliveEvery is the default of Handler.KeepAlive. Most clients and proxies wait for 60
// seconds.
const keepAliveEvery = 10 * time.Second

// keepAlive sends the status 200 and then a space from time to time while an operation takes long, as
// S3 does. An error after that is a document in the answer, which SDKs look for.
type keepAlive struct {
	x       *request
	begun   bool          // the status was sent
	ending  chan struct{} // closed by stop
	stopped chan struct{}
}

// keepAlive begins. Until stop, only keepAlive uses x.out.
func (x *request) keepAlive() *keepAlive {
	k := &keepAlive{x: x, ending: make(chan struct{}), stopped: make(chan struct{})}
	go k.run()
	return k
}

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

// send sends a space, after the XML declaration: nothing may be before that.
func (k *keepAlive) send() {
	out, text := k.x.out, " "
	if !k.begun {
		k.begun = true
		out.Header().Set("Content-Type", "application/xml")
		out.WriteHeader(http.StatusOK)
		text = xmlHeader
	}
	_, _ = out.Write([]byte(text)) // the context of the request ends when the client goes away
	_ = http.NewResponseController(out).Flush()
}

// stop waits for a space that is being sent. It may be called again.
func (k *keepAlive) stop() {
	select {
	case <-k.ending:
	default:
		close(k.ending)
	}
	<-k.stopped
}

// ready is request.ready after stop.
func (k *keepAlive) ready() error {
	k.stop()
	return k.x.ready()
}

// writeExpiration is request.writeExpiration for an object that was written, if the status was not sent.
func (k *keepAlive) writeExpiration(o *buckets.Object, err error) {
	if k.stop(); !k.begun && err == nil {
		k.x.writeExpiration(o)
	}
}

// answer sends the document, or the error of the operation. If the status was sent, the
// error it returns is a *web.Answered.
func (k *keepAlive) answer(d *document, err error) error {
	k.stop()
	switch {
	case !k.begun && err != nil:
		return err
	case !k.begun:
		sendXML(k.x.out, http.StatusOK, d)
		return nil
	case err != nil:
		d = errorDocument(k.x.out.Header(), k.x.in, asError(err))
		err = &web.Answered{Err: err}
	}
	_, _ = k.x.out.Write(d.bytes()[len(xmlHeader):]) // a client that went away has no effect
	return err
}
