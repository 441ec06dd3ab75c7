package s3api

import (
	"cmp"
	"encoding/xml"
	"net/http"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/buckets"
)

// This file serves the settings of missing features. Reads answer as S3 does for a bucket without the
// setting, and a write that asks for that state changes nothing and succeeds.

type loggingStatus struct {
	XMLName xml.Name   `xml:"BucketLoggingStatus"`
	Enabled notApplied `xml:"LoggingEnabled"`
}

type requestPayment struct {
	XMLName xml.Name `xml:"RequestPaymentConfiguration"`
	Payer   string   `xml:"Payer" s3:"required"`
}

type accelerateConfiguration struct {
	XMLName xml.Name `xml:"AccelerateConfiguration"`
	Status  string   `xml:"Status" s3:"required"`
}

type abacStatus struct {
	XMLName xml.Name `xml:"AbacStatus"`
	Status  string   `xml:"Status" s3:"required"`
}

// absent returns the methods for an unsupported configuration that clients probe. change is the right to change it.
func absent(change buckets.Right, code, message string) methods {
	err := refuse(http.StatusNotFound, code, message)
	return methods{
		http.MethodGet:    read(inBucket, func(*request) error { return err }),
		http.MethodPut:    write(change, (*request).notImplemented),
		http.MethodDelete: write(change, func(x *request) error { return x.send(http.StatusNoContent) }),
	}
}

// listed returns the methods for unsupported configurations with IDs. Without an ID, GET lists them. root is the list's
// root element.
func listed(root string) methods {
	err := refuse(http.StatusNotFound, "NoSuchConfiguration", "The specified configuration does not exist.")
	return methods{
		http.MethodGet: read(inBucket, func(x *request) error {
			if x.has("id") {
				return err
			}
			d := newDocument(root)
			d.flag("IsTruncated", false)
			sendXML(x.out, http.StatusOK, d)
			return nil
		}),
		http.MethodPut:    write(buckets.RightManage, (*request).notImplemented),
		http.MethodDelete: write(buckets.RightManage, func(*request) error { return err }),
	}
}

// fixed returns the methods for a setting with a single supported state. get writes the state; put accepts only a document
// that asks for it.
func fixed(root string, get func(*document), put func(*request) error) methods {
	return methods{
		http.MethodGet: read(inBucket, func(x *request) error {
			d := newDocument(root)
			get(d)
			sendXML(x.out, http.StatusOK, d)
			return nil
		}),
		http.MethodPut: write(buckets.RightManage, func(x *request) error {
			if err := put(x); err != nil {
				return err
			}
			return x.send(http.StatusOK)
		}),
	}
}

var (
	logging = fixed("BucketLoggingStatus", func(*document) {}, func(x *request) error {
		return x.readXML(new(loggingStatus), sigv4.BodyOptions{MaxSize: maxSettings})
	})
	payment = fixed("RequestPaymentConfiguration", func(d *document) { d.text("Payer", "BucketOwner") }, func(x *request) error {
		var c requestPayment
		err := x.readXML(&c, sigv4.BodyOptions{MaxSize: maxSettings})
		return cmp.Or(err, onlyState("Payer", c.Payer, "BucketOwner", "Requester"))
	})
	acceleration = fixed("AccelerateConfiguration", func(*document) {}, func(x *request) error {
		var c accelerateConfiguration
		err := x.readXML(&c, sigv4.BodyOptions{MaxSize: maxSettings})
		return cmp.Or(err, onlyState("Status", c.Status, "Suspended", "Enabled"))
	})
	abac = fixed("AbacStatus", func(d *document) { d.text("Status", "Disabled") }, func(x *request) error {
		var c abacStatus
		err := x.readXML(&c, sigv4.BodyOptions{MaxSize: maxSettings})
		return cmp.Or(err, onlyState("Status", c.Status, "Disabled", "Enabled"))
	})
)

// onlyState accepts a setting's only state. S3 also allows other, which gets an error, because this server does not implement it.
func onlyState(element, value, state, other string) error {
	switch value {
	case state:
		return nil
	case other:
		return errNotImplemented("the element " + element + " with " + other)
	}
	return errMalformedXML
}
