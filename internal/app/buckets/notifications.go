package buckets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"holdfast/internal/buckets"
	"holdfast/internal/operate"
)

// notificationOperations declares a bucket's notifications as one document, like S3's API.
func (s *Buckets) notificationOperations() []operate.Operation {
	return []operate.Operation{
		operate.NewRead(operate.About{
			Access: operate.ForViewers, Path: "notifications/show", Doc: "Show a bucket's notifications and the configured destinations", Title: "Notifications for bucket",
			Group: "Show and change a bucket's notifications",
		}, on(s, s.showNotifications)),
		operate.NewChange(operate.About{
			Path: "notifications/set", Doc: "Set a bucket's notifications", Title: "Set the notifications", Button: "Set notifications", Stays: true,
			Text:    "JSON as for aws s3api put-bucket-notification-configuration, with ARNs of configured destinations.",
			Example: "main photos --notifications \"$(<notifications.json)\"",
		}, on(s, s.setNotifications)),
		operate.NewChange(operate.About{
			Path: "notifications/delete", Doc: "Delete a bucket's notifications", Button: "Delete notifications", Danger: true, Stays: true,
			Ask: "New writes to the bucket publish no events. Events from earlier writes are still published.",
		}, on(s, s.deleteNotifications)),
	}
}

// notificationsOutput is the document, and the ARNs that it may name.
type notificationsOutput struct {
	Account       string `json:"account" title:"Account" subject:"account" example:"main"`
	Bucket        string `json:"bucket" title:"Bucket" subject:"bucket" example:"photos"`
	Destinations  string `json:"destinations,omitempty" title:"Destinations" zero:"-" example:"arn:holdfast:webhook:::thumbnails" doc:"ARNs of configured destinations"`
	Notifications string `json:"notifications,omitempty" text:"Notifications" doc:"missing: no events published"`
}

// Offers delete only if there are notifications.
func (o notificationsOutput) Offers(verb string) bool {
	return verb != "delete" || o.Notifications != ""
}

// notificationJSON is the format of aws-cli and the SDKs.
type notificationJSON struct {
	Topics    []ruleJSON `json:"TopicConfigurations,omitempty"`
	Queues    []ruleJSON `json:"QueueConfigurations,omitempty"`
	Functions []ruleJSON `json:"LambdaFunctionConfigurations,omitempty"`
}

// ruleJSON is a configuration. Which ARN member is set depends on the list that it is in.
type ruleJSON struct {
	ID       string      `json:"Id,omitempty"`
	Topic    string      `json:"TopicArn,omitempty"`
	Queue    string      `json:"QueueArn,omitempty"`
	Function string      `json:"LambdaFunctionArn,omitempty"`
	Events   []string    `json:"Events"`
	Filter   *filterJSON `json:"Filter,omitempty"`
}

type filterJSON struct {
	Key struct {
		Rules []nameFilterJSON `json:"FilterRules"`
	} `json:"Key"`
}

type nameFilterJSON struct {
	Name  string `json:"Name"`
	Value string `json:"Value"`
}

// of returns the list for a target, and the ARN member of its rules. S3's three target kinds differ only in these
// names.
func (n *notificationJSON) of(t buckets.Target) (rules *[]ruleJSON, arn func(*ruleJSON) *string) {
	switch t {
	case buckets.TargetTopic:
		return &n.Topics, func(r *ruleJSON) *string { return &r.Topic }
	case buckets.TargetQueue:
		return &n.Queues, func(r *ruleJSON) *string { return &r.Queue }
	}
	return &n.Functions, func(r *ruleJSON) *string { return &r.Function }
}

// showNotifications returns the document as aws-cli prints it, so that it can be changed and set again.
func (s *Buckets) showNotifications(ctx context.Context, in bucketInput) (o notificationsOutput, err error) {
	a, b, err := s.bucketOf(ctx, in)
	if err != nil {
		return o, err
	}
	o = notificationsOutput{Account: a.Name, Bucket: b.Name}
	var arns []string
	for _, d := range s.opened.Destinations() {
		arns = append(arns, d.ARN())
	}
	o.Destinations = strings.Join(arns, ", ")
	if b.Settings.Notifications.IsZero() {
		return o, nil
	}
	var n notificationJSON
	for i := range b.Settings.Notifications.Rules {
		r := &b.Settings.Notifications.Rules[i]
		rule := ruleJSON{ID: r.ID, Events: r.Events}
		if r.Filtered {
			rule.Filter = &filterJSON{}
			for _, f := range r.Filters {
				rule.Filter.Key.Rules = append(rule.Filter.Key.Rules, nameFilterJSON(f))
			}
		}
		rules, arn := n.of(r.Target)
		*arn(&rule) = r.ARN
		*rules = append(*rules, rule)
	}
	text, err := json.MarshalIndent(&n, "", "  ")
	o.Notifications = string(text)
	return o, err
}

// notificationsInput is the whole document.
type notificationsInput struct {
	bucketInput
	Notifications string `flag:"notifications" title:"Notifications" value:"JSON" doc:"the notifications as JSON" lines:"16"`
}

// Check parses the document before anything is read.
func (in notificationsInput) Check() error {
	_, err := in.parse()
	return err
}

// parse refuses unknown members, which would be lost, and an empty document: notifications/delete exists for that.
func (in notificationsInput) parse() (n buckets.Notifications, err error) {
	invalid := func(reason string) error { return &operate.InputError{Input: "notifications", Reason: reason} }
	var parsed notificationJSON
	d := json.NewDecoder(bytes.NewReader([]byte(in.Notifications)))
	d.DisallowUnknownFields()
	if err := d.Decode(&parsed); err != nil || d.More() {
		return n, invalid("must be JSON with TopicConfigurations, QueueConfigurations or LambdaFunctionConfigurations, as aws s3api takes it")
	}
	for _, t := range []buckets.Target{buckets.TargetTopic, buckets.TargetQueue, buckets.TargetFunction} {
		rules, arn := parsed.of(t)
		for i := range *rules {
			r := &(*rules)[i]
			rule := buckets.NotificationRule{ID: r.ID, Target: t, ARN: *arn(r), Events: r.Events}
			if rule.ID == "" {
				rule.ID = buckets.NewUUID()
			}
			if r.Filter != nil {
				rule.Filtered = true
				for _, f := range r.Filter.Key.Rules {
					rule.Filters = append(rule.Filters, buckets.NameFilter(f))
				}
			}
			n.Rules = append(n.Rules, rule)
		}
	}
	if n.IsZero() {
		return n, invalid("must have at least one configuration")
	}
	return n, nil
}

// setNotifications replaces the document. Destinations must be configured.
func (s *Buckets) setNotifications(ctx context.Context, in notificationsInput) (c bucketChange, err error) {
	a, b, err := s.bucketOf(ctx, in.bucketInput)
	if err != nil {
		return c, err
	}
	n, err := in.parse()
	if err == nil {
		err = s.opened.SetNotifications(ctx, a.ID, b.BucketRef, n)
	}
	if invalid, ok := errors.AsType[*buckets.NotificationError](err); ok {
		return c, &operate.InputError{Input: "notifications", Reason: "are not valid: " + invalid.Message}
	}
	return bucketChange{in.Account, in.Bucket, "set the notifications for bucket " + in.Bucket}, err
}

// deleteNotifications succeeds for a bucket without notifications.
func (s *Buckets) deleteNotifications(ctx context.Context, in bucketInput) (bucketChange, error) {
	a, b, err := s.bucketOf(ctx, in)
	if err == nil {
		err = s.opened.SetNotifications(ctx, a.ID, b.BucketRef, buckets.Notifications{})
	}
	return bucketChange{in.Account, in.Bucket, fmt.Sprintf("bucket %s has no notifications", in.Bucket)}, err
}
