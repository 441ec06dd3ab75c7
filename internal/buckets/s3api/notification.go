package s3api

import (
	"cmp"
	"context"
	"encoding/xml"
	"net/http"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/buckets"
	"holdfast/internal/web"
)

// notificationConfiguration rejects unknown elements, because ignoring a filter would publish unwanted events. These
// types mirror S3's XML.
type notificationConfiguration struct {
	Topics    notificationRules `xml:"TopicConfiguration"`
	Queues    notificationRules `xml:"QueueConfiguration"`
	Functions notificationRules `xml:"CloudFunctionConfiguration"`
	Bridge    *struct{}         `xml:"EventBridgeConfiguration"`
	Unknown   []unknown         `xml:",any"`
}

type notificationRule struct {
	ID       string    `xml:"Id"`
	Topic    string    `xml:"Topic"`
	Queue    string    `xml:"Queue"`
	Function string    `xml:"CloudFunction"`
	Events   eventList `xml:"Event"`
	Filter   *struct {
		Key *struct {
			Rules   filterRules `xml:"FilterRule"`
			Unknown []unknown   `xml:",any"`
		} `xml:"S3Key"`
		Unknown []unknown `xml:",any"`
	} `xml:"Filter"`
	Unknown []unknown `xml:",any"`
}

type filterRule struct {
	Name  string `xml:"Name"`
	Value string `xml:"Value"`
}

// maxFilterRules is more than the 2 that S3 allows: with the third, Check reports which name repeats.
const maxFilterRules = 3

type (
	notificationRules []notificationRule
	eventList         []string
	filterRules       []filterRule
)

// UnmarshalXML limits the list.
func (l *eventList) UnmarshalXML(d *xml.Decoder, start xml.StartElement) error {
	return appendXML((*[]string)(l), buckets.MaxRuleEvents, d, start)
}

// UnmarshalXML limits the list.
func (l *filterRules) UnmarshalXML(d *xml.Decoder, start xml.StartElement) error {
	return appendXML((*[]filterRule)(l), maxFilterRules, d, start)
}

// UnmarshalXML limits the list.
func (l *notificationRules) UnmarshalXML(d *xml.Decoder, start xml.StartElement) error {
	return appendXML((*[]notificationRule)(l), buckets.MaxNotificationRules, d, start)
}

// notificationElements are in S3's order.
var notificationElements = []struct {
	target       buckets.Target
	element, arn string
}{
	{buckets.TargetTopic, "TopicConfiguration", "Topic"},
	{buckets.TargetQueue, "QueueConfiguration", "Queue"},
	{buckets.TargetFunction, "CloudFunctionConfiguration", "CloudFunction"},
}

// getNotification serves GetBucketNotificationConfiguration. Without rules, the document is empty.
func (x *request) getNotification() error {
	d := newDocument("NotificationConfiguration")
	for _, of := range notificationElements {
		for i := range x.bucket.Settings.Notifications.Rules {
			if r := &x.bucket.Settings.Notifications.Rules[i]; r.Target == of.target {
				d.begin(of.element)
				d.text("Id", r.ID)
				d.text(of.arn, r.ARN)
				for _, e := range r.Events {
					d.text("Event", e)
				}
				writeNameFilters(d, r)
				d.end()
			}
		}
	}
	sendXML(x.out, http.StatusOK, d)
	return nil
}

// writeNameFilters repeats the filter as the client sent it.
func writeNameFilters(d *document, r *buckets.NotificationRule) {
	if !r.Filtered {
		return
	}
	d.begin("Filter")
	d.begin("S3Key")
	for _, f := range r.Filters {
		d.begin("FilterRule")
		d.text("Name", f.Name)
		d.text("Value", f.Value)
		d.end()
	}
	d.end()
	d.end()
}

var errEventBridge = errNotImplemented("EventBridgeConfiguration; use a TopicConfiguration, QueueConfiguration or CloudFunctionConfiguration with the ARN of a destination of the server")

// putNotification serves PutBucketNotificationConfiguration, which replaces all rules. An empty document removes them.
func (x *request) putNotification() error {
	var c notificationConfiguration
	if err := x.readXML("NotificationConfiguration", &c, sigv4.BodyOptions{MaxSize: buckets.MaxNotificationBytes}); err != nil {
		return err
	}
	if len(c.Unknown) > 0 {
		return errMalformedXML
	}
	if c.Bridge != nil {
		return errEventBridge
	}
	var n buckets.Notifications
	for _, of := range []struct {
		target buckets.Target
		rules  notificationRules
	}{{buckets.TargetTopic, c.Topics}, {buckets.TargetQueue, c.Queues}, {buckets.TargetFunction, c.Functions}} {
		for i := range of.rules {
			r, err := of.rules[i].rule(of.target)
			if err != nil {
				return err
			}
			n.Rules = append(n.Rules, r)
		}
	}
	if invalid := n.Check(x.Service.Destinations()); invalid != nil {
		return &Error{Status: http.StatusBadRequest, Code: "InvalidArgument", Message: invalid.Message, Fields: []Field{
			{"ArgumentName", invalid.Argument}, {"ArgumentValue", invalid.Value},
		}}
	}
	if err := x.Service.SetNotifications(x.writing(), x.owner, x.bucket.BucketRef, n); err != nil {
		return err
	}
	return x.send(http.StatusOK)
}

// rule converts a rule. It must name an ARN in the element that belongs to its type. A missing ID is generated, like
// S3.
func (r *notificationRule) rule(t buckets.Target) (rule buckets.NotificationRule, err error) {
	if len(r.Unknown) > 0 {
		return rule, errMalformedXML
	}
	all := map[buckets.Target]string{buckets.TargetTopic: r.Topic, buckets.TargetQueue: r.Queue, buckets.TargetFunction: r.Function}
	rule = buckets.NotificationRule{ID: cmp.Or(r.ID, buckets.NewUUID()), Target: t, ARN: all[t], Events: r.Events}
	for of, arn := range all {
		if (arn != "") != (of == t) {
			return rule, errMalformedXML
		}
	}
	if f := r.Filter; f != nil {
		if len(f.Unknown) > 0 || f.Key != nil && len(f.Key.Unknown) > 0 {
			return rule, errMalformedXML
		}
		rule.Filtered = true
		if f.Key != nil {
			for _, of := range f.Key.Rules {
				rule.Filters = append(rule.Filters, buckets.NameFilter{Name: of.Name, Value: of.Value})
			}
		}
	}
	return rule, nil
}

// writing adds the client to the context, for events.
func (x *request) writing() context.Context {
	return buckets.WithOrigin(x.in.Context(), func() buckets.Origin {
		ip, _ := web.ClientIP(x.in)
		return buckets.Origin{Requester: x.account.ID, IP: ip, Request: x.out.Header().Get("X-Amz-Request-Id")}
	})
}
