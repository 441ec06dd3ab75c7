-- The data that storetest.Migrated expects.

SELECT sync_name_v1(7, 'toys', 10);

SELECT sync_put_v1(8, 9, 'x', NULL, 'other', NULL, '2023-11-14 22:13:20.1', NULL, NULL, 0, 0, false, false);
SELECT sync_put_v1(7, 7, 'a', 5, '\x00ff27', NULL, '2023-11-14 22:13:20.1', NULL, NULL, 0, 0, false, false);
SELECT sync_put_v1(7, 7, '..', NULL, 'two', NULL, '2023-11-14 22:13:20.11', NULL, NULL, 0, 0, false, false);
SELECT sync_post_v1(7, 100, '{forever,mortal}', '{NULL,-999999999}', '{"",dies}', '{NULL,3600}', '{0,4}',
	'2023-11-14 22:13:20.12', NULL, NULL, 0, 0, false, false);
SELECT sync_append_v1(7, 7, '0123456789abcdef0123456789abcdef', true, '2023-11-15 00:13:20.13',
	'{a,c}', '{NULL,1}', '{new,three}', '{NULL,NULL}', '{3,5}', 100, 1000, '2023-11-14 22:13:20.13', NULL, NULL, 0, 0, false, false);
SELECT sync_put_v1(7, 9, 'x', NULL, 'gone', NULL, '2023-11-14 22:13:20.14', NULL, NULL, 0, 0, false, false);
SELECT sync_delete_collection_v1(7, 9, '2023-11-14 22:13:20.15', NULL, NULL);
