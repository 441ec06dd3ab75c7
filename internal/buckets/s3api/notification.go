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

// notificationConfiguration mirrors S3's XML.
type notificationConfiguration struct {
	XMLName   xml.Name                        `xml:"NotificationConfiguration"`
	Topics    notificationRules[topicRule]    `xml:"TopicConfiguration"`
	Queues    notificationRules[queueRule]    `xml:"QueueConfiguration"`
	Functions notificationRules[functionRule] `xml:"CloudFunctionConfiguration"`
	Bridge    notApplied                      `xml:"EventBridgeConfiguration"`
}

type topicRule struct {
	notificationRule
	ARN string `xml:"Topic" s3:"required"`
}

type queueRule struct {
	notificationRule
	ARN string `xml:"Queue" s3:"required"`
}

type functionRule struct {
	notificationRule
	ARN string `xml:"CloudFunction" s3:"required"`
}

type notificationRule struct {
	ID     string    `xml:"Id" s3:"empty"`
	Events eventList `xml:"Event"`
	Filter *struct {
		Key *struct {
			Rules filterRules `xml:"FilterRule"`
		} `xml:"S3Key"`
	} `xml:"Filter"`
}

type filterRule struct {
	Name  string `xml:"Name" s3:"required"`
	Value string `xml:"Value" s3:"required,empty"`
}

// maxFilterRules is more than the 2 that S3 allows: with the third, Check reports which name repeats.
const maxFilterRules = 3

type (
	notificationRules[T any] []T
	eventList                []string
	filterRules              []filterRule
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
func (l *notificationRules[T]) UnmarshalXML(d *xml.Decoder, start xml.StartElement) error {
	return appendXML((*[]T)(l), buckets.MaxNotificationRules, d, start)
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

// putNotification serves PutBucketNotificationConfiguration, which replaces all rules. An empty document removes them.
func (x *request) putNotification() error {
	var c notificationConfiguration
	if err := x.readXML(&c, sigv4.BodyOptions{MaxSize: buckets.MaxNotificationBytes}); err != nil {
		return err
	}
	var n buckets.Notifications
	for i := range c.Topics {
		n.Rules = append(n.Rules, c.Topics[i].rule(buckets.TargetTopic, c.Topics[i].ARN))
	}
	for i := range c.Queues {
		n.Rules = append(n.Rules, c.Queues[i].rule(buckets.TargetQueue, c.Queues[i].ARN))
	}
	for i := range c.Functions {
		n.Rules = append(n.Rules, c.Functions[i].rule(buckets.TargetFunction, c.Functions[i].ARN))
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

// rule converts a rule. A missing ID is generated, like S3.
func (r *notificationRule) rule(t buckets.Target, arn string) buckets.NotificationRule {
	rule := buckets.NotificationRule{ID: cmp.Or(r.ID, buckets.NewUUID()), Target: t, ARN: arn, Events: r.Events}
	if f := r.Filter; f != nil {
		rule.Filtered = true
		if f.Key != nil {
			for _, of := range f.Key.Rules {
				rule.Filters = append(rule.Filters, buckets.NameFilter{Name: of.Name, Value: of.Value})
			}
		}
	}
	return rule
}

// writing adds the client to the context, for events.
func (x *request) writing() context.Context {
	return buckets.WithOrigin(x.in.Context(), func() buckets.Origin {
		ip, _ := web.ClientIP(x.in)
		return buckets.Origin{Requester: x.account.ID, IP: ip, Request: x.out.Header().Get("X-Amz-Request-Id")}
	})
}
