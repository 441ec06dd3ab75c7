# Exercises boto3; old and new versions run the same program.
import glob
import io
import os
import urllib.error
import urllib.request
from email.header import Header, decode_header, make_header

import boto3
import botocore
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError

MIB = 1 << 20
bucket = os.environ["BUCKET"]
new = tuple(int(n) for n in botocore.__version__.split(".")[:2]) >= (1, 36)
s3 = boto3.client("s3", endpoint_url=os.environ["ENDPOINT"], config=Config(signature_version="s3v4", s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}))
parts = TransferConfig(multipart_threshold=6 * MIB, multipart_chunksize=5 * MIB)


class Pipe(io.RawIOBase):
    """A stream without a length that cannot be rewound."""

    def __init__(self, data):
        self.data = io.BytesIO(data)

    def readable(self):
        return True

    def readinto(self, into):
        return self.data.readinto(into)


def is_error(code, call, **arguments):
    try:
        call(**arguments)
    except ClientError as e:
        assert e.response["Error"]["Code"] == code and e.response["ResponseMetadata"]["HostId"], e
        return e.response["Error"]
    else:
        raise AssertionError("no " + code)


def get(key, **arguments):
    return s3.get_object(Bucket=bucket, Key=key, **arguments)["Body"].read()


def send(method, url, data=None, headers={}):
    with urllib.request.urlopen(urllib.request.Request(url, method=method, data=data, headers=headers)) as answer:
        return answer.read()


s3.create_bucket(Bucket=bucket)
assert bucket in [b["Name"] for b in s3.list_buckets()["Buckets"]]
assert s3.get_bucket_location(Bucket=bucket)["LocationConstraint"] is None

day = {}
for path in glob.glob("day/**", recursive=True):
    if os.path.isfile(path):
        with open(path, "rb") as f:
            day[path] = f.read()
        s3.upload_file(path, bucket, path, Config=parts, ExtraArgs={"Metadata": {"author": "me"}})
big, note = day["day/big.bin"], day["day/note.txt"]
for path, text in day.items():
    s3.download_file(bucket, path, "back", Config=parts)
    with open("back", "rb") as f:
        assert f.read() == text, path

# Both list versions, with pages.
for operation in "list_objects", "list_objects_v2":
    pages = s3.get_paginator(operation).paginate(Bucket=bucket, Prefix="day/", PaginationConfig={"PageSize": 2})
    assert sorted(o["Key"] for page in pages for o in page["Contents"]) == sorted(day), operation
    page = getattr(s3, operation)(Bucket=bucket, Prefix="day/photos/", Delimiter="/")
    assert [p["Prefix"] for p in page["CommonPrefixes"]] == ["day/photos/2026/"] and len(page["Contents"]) == 2, page

# Streams of unknown length, ranges, conditions, metadata.
s3.upload_fileobj(Pipe(big), bucket, "piped", Config=parts)
head = s3.head_object(Bucket=bucket, Key="piped")
assert head["ContentLength"] == len(big) and head["ETag"].endswith('-4"'), head
assert get("piped", Range="bytes=5242870-5242889") == big[5242870:5242890]
assert get("piped", PartNumber=4) == big[15 * MIB:]
is_error("304", s3.get_object, Bucket=bucket, Key="piped", IfNoneMatch=head["ETag"])
is_error("412", s3.head_object, Bucket=bucket, Key="piped", IfMatch='"other"')
is_error("InvalidRange", s3.get_object, Bucket=bucket, Key="day/note.txt", Range="bytes=1000-")
assert is_error("NoSuchKey", s3.get_object, Bucket=bucket, Key="absent")["Key"] == "absent"
is_error("404", s3.head_object, Bucket=bucket, Key="absent")
s3.copy({"Bucket": bucket, "Key": "piped"}, bucket, "copy", Config=parts)
assert get("copy") == big
s3.copy_object(Bucket=bucket, Key="day/note.txt", CopySource={"Bucket": bucket, "Key": "day/note.txt"}, MetadataDirective="REPLACE", Metadata={"author": "you"}, ContentType="text/plain")
head = s3.head_object(Bucket=bucket, Key="day/note.txt")
assert head["Metadata"] == {"author": "you"} and head["ContentType"] == "text/plain", head
# boto3 sends ASCII only, so other text is encoded.
s3.put_object(Bucket=bucket, Key="named", Body=note, Metadata={"author": Header("Grüße, 日本語 😀", "utf-8").encode()})
author = s3.head_object(Bucket=bucket, Key="named")["Metadata"]["author"]
assert author.isascii() and str(make_header(decode_header(author))) == "Grüße, 日本語 😀", author
s3.put_object_tagging(Bucket=bucket, Key="day/note.txt", Tagging={"TagSet": [{"Key": "a", "Value": "b c"}]})
assert s3.get_object_tagging(Bucket=bucket, Key="day/note.txt")["TagSet"] == [{"Key": "a", "Value": "b c"}]
for algorithm in "CRC32", "SHA1", "SHA256":
    s3.put_object(Bucket=bucket, Key="checked", Body=note, ChecksumAlgorithm=algorithm)
    got = s3.get_object(Bucket=bucket, Key="checked", ChecksumMode="ENABLED")
    assert got["Body"].read() == note and got["Checksum" + algorithm], got
if new:
    failed = is_error("PreconditionFailed", s3.put_object, Bucket=bucket, Key="copy", Body=b"x", IfNoneMatch="*")
    assert failed["Condition"] == "If-None-Match", failed
    got = s3.get_object(Bucket=bucket, Key="piped", PartNumber=4, ChecksumMode="ENABLED")
    assert got["Body"].read() == big[15 * MIB:] and got["ChecksumCRC32"] and got["ChecksumType"], got
    attributes = s3.get_object_attributes(Bucket=bucket, Key="piped", ObjectAttributes=["ObjectSize", "ObjectParts"])
    assert attributes["ObjectSize"] == len(big) and attributes["ObjectParts"]["TotalPartsCount"] == 4, attributes

# Presigned URLs and forms, also with the default configuration, which signs them with Signature Version 2.
for maker, old in (s3, False), (boto3.client("s3", endpoint_url=os.environ["ENDPOINT"]), True):
    s3.delete_object(Bucket=bucket, Key="linked")
    arguments = {"Bucket": bucket, "Key": "linked", "ContentType": "text/plain", "Metadata": {"author": "me"}}
    link = maker.generate_presigned_url("put_object", arguments, ExpiresIn=60)
    assert ("AWSAccessKeyId=" in link) == old, link
    send("PUT", link, note, {"Content-Type": "text/plain", "x-amz-meta-author": "me"})
    link = maker.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "linked", "ResponseContentDisposition": "attachment"})
    assert send("GET", link) == note
    link = maker.generate_presigned_url("head_object", {"Bucket": bucket, "Key": "linked"})
    assert send("HEAD", link) == b""
    link = maker.generate_presigned_url("delete_object", {"Bucket": bucket, "Key": "linked"})
    send("DELETE", link)
    is_error("404", s3.head_object, Bucket=bucket, Key="linked")
    name = "form/" + str(old)
    form = maker.generate_presigned_post(bucket, name + "${filename}", ExpiresIn=60)
    assert ("AWSAccessKeyId" in form["fields"]) == old, form
    body = b"".join(b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (k.encode(), v.encode()) for k, v in form["fields"].items())
    body += b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n' + note + b"\r\n--x--\r\n"
    send("POST", form["url"], body, {"Content-Type": "multipart/form-data; boundary=x"})
    assert get(name + "a.txt") == note

# Chunk framing never becomes content. With the SHA-256 of the body, aws-chunked is only metadata.
s3.put_object(Bucket=bucket, Key="encoded", Body=note, ContentEncoding="aws-chunked")
assert s3.head_object(Bucket=bucket, Key="encoded")["ContentEncoding"] == "aws-chunked"
link = s3.generate_presigned_url("put_object", {"Bucket": bucket, "Key": "framed", "ContentEncoding": "aws-chunked"}, ExpiresIn=60)
try:
    send("PUT", link, b"5\r\nhello\r\n0\r\n\r\n", {"Content-Encoding": "aws-chunked"})
    raise AssertionError("chunk framing was stored")
except urllib.error.HTTPError as e:
    answer = e.read()
    assert e.code == 400 and b"<ArgumentName>Content-Encoding</ArgumentName><ArgumentValue>aws-chunked</ArgumentValue>" in answer, answer
is_error("404", s3.head_object, Bucket=bucket, Key="framed")

# Versions.
s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
first = s3.put_object(Bucket=bucket, Key="versions", Body=b"first")["VersionId"]
second = s3.put_object(Bucket=bucket, Key="versions", Body=b"second")["VersionId"]
marker = s3.delete_object(Bucket=bucket, Key="versions")
assert marker["DeleteMarker"] and marker["VersionId"], marker
is_error("NoSuchKey", s3.get_object, Bucket=bucket, Key="versions")
assert get("versions", VersionId=first) == b"first"
page = s3.list_object_versions(Bucket=bucket, Prefix="versions")
assert [v["VersionId"] for v in page["Versions"]] == [second, first] and page["DeleteMarkers"][0]["IsLatest"], page
s3.delete_object(Bucket=bucket, Key="versions", VersionId=marker["VersionId"])
assert get("versions") == b"second"
s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Suspended"})

# An aborted upload.
upload = s3.create_multipart_upload(Bucket=bucket, Key="never")["UploadId"]
s3.upload_part(Bucket=bucket, Key="never", UploadId=upload, PartNumber=1, Body=note)
assert [u["UploadId"] for u in s3.list_multipart_uploads(Bucket=bucket)["Uploads"]] == [upload]
assert s3.list_parts(Bucket=bucket, Key="never", UploadId=upload)["Parts"][0]["Size"] == len(note)
s3.abort_multipart_upload(Bucket=bucket, Key="never", UploadId=upload)
assert is_error("NoSuchUpload", s3.list_parts, Bucket=bucket, Key="never", UploadId=upload)["UploadId"] == upload

is_error("BucketNotEmpty", s3.delete_bucket, Bucket=bucket)
everything = boto3.resource("s3", endpoint_url=os.environ["ENDPOINT"]).Bucket(bucket)
everything.objects.filter(Prefix="day/").delete()
everything.object_versions.delete()
everything.delete()
assert is_error("NoSuchBucket", s3.list_objects_v2, Bucket=bucket)["BucketName"] == bucket
print("done", botocore.__version__)
