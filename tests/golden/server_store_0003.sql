BEGIN TRANSACTION;
CREATE TABLE activations (
	id INTEGER NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	version INTEGER NOT NULL, 
	at BIGINT NOT NULL, 
	"by" VARCHAR(200) NOT NULL, 
	note TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "activations" VALUES(1,'m',1,1795009217744064,'ada','better');
INSERT INTO "activations" VALUES(2,'m',2,1795009217756238,'ada','better');
CREATE TABLE alarm_events (
	id INTEGER NOT NULL, 
	machine VARCHAR(200) NOT NULL, 
	kind VARCHAR(10) NOT NULL, 
	anomalies INTEGER NOT NULL, 
	"of" INTEGER NOT NULL, 
	at BIGINT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "alarm_events" VALUES(1,'press 1','raised',3,5,1795009217806104);
INSERT INTO "alarm_events" VALUES(2,'press 1','cleared',3,5,1795009217806105);
INSERT INTO "alarm_events" VALUES(3,'press 1','raised',3,5,1795009217806106);
CREATE TABLE alarms (
	machine VARCHAR(200) NOT NULL, 
	ringing BOOLEAN NOT NULL, 
	since BIGINT NOT NULL, 
	PRIMARY KEY (machine)
);
INSERT INTO "alarms" VALUES('press 1',1,1795009217806106);
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0003');
CREATE TABLE audit (
	seq INTEGER NOT NULL, 
	at BIGINT NOT NULL, 
	kind VARCHAR(30) NOT NULL, 
	actor VARCHAR(200) NOT NULL, 
	body TEXT NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	PRIMARY KEY (seq)
);
INSERT INTO "audit" VALUES(1,1795009217695028,'verdicts','system','{"records":[{"case":"728cec98bc8043f89f5472ae9ee91681","input":"651e9b0181fcfa40747f63ce27501b748fb1cae2787d3f40fcb3113ec37f15a1","seal":"e37aefad166b13321de204297d13bc4fa730418dd29b95617a7edd48b9519a33","verdict":"REFER"},{"case":"89f8aad8926f4f44942a9a1a68537839","input":"651e9b0181fcfa40747f63ce27501b748fb1cae2787d3f40fcb3113ec37f15a1","seal":"7ca51e1ded9a74533130d2206a4e8f5a9c6bee3227f8104a868945c66fd37a56","verdict":"REFER"}]}','71a664057fccf72bbc6debe16c9000313ca8eeb0a97aadf967fecbee7da7df48');
INSERT INTO "audit" VALUES(2,1795009217703236,'reviewed','ada','{"case":"728cec98bc8043f89f5472ae9ee91681","comment":"worn die","label":"A","withdraws":null}','51ba57fc25b7637c99587815e700c7509145cf78dcc69b43525ba8ecc2669cb6');
INSERT INTO "audit" VALUES(3,1795009217707803,'reviewed','bob','{"case":"89f8aad8926f4f44942a9a1a68537839","comment":"","label":"I","withdraws":null}','f55278653d118e775e1955eeaa4107723f77c2bdaee0e40c43b73ed9c03b67ab');
INSERT INTO "audit" VALUES(4,1795009217713640,'undone','bob','{"case":"89f8aad8926f4f44942a9a1a68537839","comment":"","label":null,"withdraws":2}','2e282959b587387fdc01a480dc3cd3290e781872248ce54a7b4ea8b33c7c615e');
INSERT INTO "audit" VALUES(5,1795009217718311,'key added','ada','{"hash":"f90cacffe19a94f9bd48ae7fa714c5389a8352a0bea9c18345a8d8a9e1543fb6","name":"line 3","role":"scorer"}','897494ea520a2e53237578e465d7e5282ae8324ba25a8fa34b87660965975bb4');
INSERT INTO "audit" VALUES(6,1795009217724765,'version added','ada','{"evaluation":null,"name":"m","origin":"given","parent":null,"rule":"r","rule_content":{"referral_threshold":0.1},"sha256":"0","version":1}','4544d60cdfa50cf3f20f1c865db117698fee8b2988237403f070affee465d9ce');
INSERT INTO "audit" VALUES(7,1795009217738912,'version added','ada','{"evaluation":{"new":{"wrong":0.25}},"name":"m","origin":"given","parent":null,"rule":"r","rule_content":{"referral_threshold":0.1},"sha256":"1","version":2}','12b8dfe3e36e3ea230070168cd17af0e8bca7beb2b5ce3b5dbcc57f9077851b3');
INSERT INTO "audit" VALUES(8,1795009217744064,'activated','ada','{"name":"m","note":"better","version":1}','4704f56422b29ad7c7485ef8c63d4a013fd1632dc724e90d15b7dd2844482284');
INSERT INTO "audit" VALUES(9,1795009217756238,'activated','ada','{"name":"m","note":"better","version":2}','bccb6c5b55dd17eed7973f3601d333efa99e8ff3aec1bbec6ceb1cd6995b4728');
INSERT INTO "audit" VALUES(10,1795009217761126,'job started','ada','{"job":1,"kind":"retrain","model":"m","parameters":{"file":"a.csv"}}','f85abe4b5076583b490b57201a42782d7221a07b83e47640abc90840b26f868a');
INSERT INTO "audit" VALUES(11,1795009217766518,'job started','ada','{"job":2,"kind":"retrain","model":"m","parameters":{"file":"a.csv"}}','acf58f6318d8129d7d4c36b2f5a5240f871506654a01e59af4eeb425e822fdf2');
INSERT INTO "audit" VALUES(12,1795009217778492,'job ended','system','{"job":1,"message":"version 2 is ready","result":{"version":2},"status":"done"}','3920859fdb7786db354524cdf00e4d75fa638877a88a871996e66ad59043d50c');
INSERT INTO "audit" VALUES(13,1795009217790473,'job ended','system','{"job":2,"message":"no such file","result":null,"status":"failed"}','1cc231639fdd1c0fbca3464a7b41eec211db7ca4422364a1bf831d64acb9261b');
INSERT INTO "audit" VALUES(14,1795009217798441,'job started','bob','{"job":3,"kind":"recalibrate","model":"m","parameters":{"threshold":0.2}}','19a40cf61f88b84afcd2a5eaac792ce8e512dd2636201ff55d301124ca269a8b');
INSERT INTO "audit" VALUES(15,1795009217806104,'alarm raised','system','{"anomalies":3,"machine":"press 1","of":5}','d30be89229ccf5677ef34b197f4b38e6e84ab8aadfc86c466923d04cf54cd387');
INSERT INTO "audit" VALUES(16,1795009217806105,'alarm cleared','system','{"anomalies":3,"machine":"press 1","of":5}','01b786f0acffeecd959cd2b5e825b8269c6d8f07fb610a75f89d135fb99a0f20');
INSERT INTO "audit" VALUES(17,1795009217806106,'alarm raised','system','{"anomalies":3,"machine":"press 1","of":5}','75b11d2dbc576f6a2e3918b5e5a434301400adb5dc611591fa216ce853101392');
INSERT INTO "audit" VALUES(18,1795009217826593,'key added','ada','{"hash":"76646626ecaa3bd60fe9490739aaa1e47efda5adb4c9deff67c0001934390564","name":"bob","role":"reviewer"}','e57f04f06301cd1c537fb2584a0f30d8caf01393bac9f80b4da9fc9eeef8a814');
INSERT INTO "audit" VALUES(19,1795009217832125,'key revoked','ada','{"name":"line 3"}','288b8f5ac3d7da1e9f280a5a4e9a797406a2a9e10c53cefa29b7c1046768b235');
INSERT INTO "audit" VALUES(20,1795009217841975,'logged in','bob','{}','fddecd9ba50149d1ccea636e61b2c6e8b9dc0ea64fcb234015a455db37d2cc1c');
INSERT INTO "audit" VALUES(21,1795009217862402,'claimed','bob','{"case":"89f8aad8926f4f44942a9a1a68537839"}','48cb9b58a96c1519e5711bf7b975de51c8d970cffb4a3667f6e5af49e40a76ac');
CREATE TABLE audit_head (
	id INTEGER NOT NULL, 
	seq INTEGER NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "audit_head" VALUES(1,21,'48cb9b58a96c1519e5711bf7b975de51c8d970cffb4a3667f6e5af49e40a76ac');
CREATE TABLE cases (
	id INTEGER NOT NULL, 
	reference VARCHAR(32) NOT NULL, 
	at BIGINT NOT NULL, 
	model VARCHAR(200) NOT NULL, 
	version INTEGER NOT NULL, 
	sha256 VARCHAR(64) NOT NULL, 
	rule VARCHAR(16) NOT NULL, 
	machine VARCHAR(200) NOT NULL, 
	external_id VARCHAR(200), 
	verdict VARCHAR(10) NOT NULL, 
	reason VARCHAR(30) NOT NULL, 
	prediction BOOLEAN NOT NULL, 
	probability FLOAT NOT NULL, 
	epistemic FLOAT NOT NULL, 
	aleatoric FLOAT NOT NULL, 
	total FLOAT NOT NULL, 
	exceed FLOAT NOT NULL, 
	var_nll FLOAT NOT NULL, 
	nll FLOAT NOT NULL, 
	p_value FLOAT, 
	notes TEXT NOT NULL, 
	input BLOB NOT NULL, 
	input_hash VARCHAR(64) NOT NULL, 
	overflow BOOLEAN NOT NULL, 
	audit INTEGER NOT NULL, 
	status VARCHAR(10) NOT NULL, novelty FLOAT, 
	PRIMARY KEY (id), 
	UNIQUE (reference)
);
INSERT INTO "cases" VALUES(1,'728cec98bc8043f89f5472ae9ee91681',1795009217694764,'press',1,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','0123456789ab','press-1',NULL,'REFER','uncertain-aleatoric',1,0.55,0.05,0.15,0.2,0.4,0.01,3.33333333333333314829e-01,0.02,'',X'7B227072657373757265223A352E32352C22666C6F77223A312E357D','651e9b0181fcfa40747f63ce27501b748fb1cae2787d3f40fcb3113ec37f15a1',0,1,'decided',0.6);
INSERT INTO "cases" VALUES(2,'89f8aad8926f4f44942a9a1a68537839',1795009217694785,'press',1,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','0123456789ab','press-1',NULL,'REFER','uncertain-aleatoric',1,0.55,0.05,0.15,0.24,0.4,0.01,3.33333333333333314829e-01,0.02,'',X'7B227072657373757265223A352E32352C22666C6F77223A312E357D','651e9b0181fcfa40747f63ce27501b748fb1cae2787d3f40fcb3113ec37f15a1',0,1,'waiting',0.6);
CREATE TABLE claims (
	case_id INTEGER NOT NULL, 
	reviewer VARCHAR(200) NOT NULL, 
	until BIGINT NOT NULL, 
	PRIMARY KEY (case_id), 
	FOREIGN KEY(case_id) REFERENCES cases (id)
);
INSERT INTO "claims" VALUES(2,'bob',1795009817862402);
CREATE TABLE drift_states (
	name VARCHAR(200) NOT NULL, 
	version INTEGER NOT NULL, 
	at BIGINT NOT NULL, 
	state TEXT NOT NULL, 
	PRIMARY KEY (name, version)
);
INSERT INTO "drift_states" VALUES('m',2,1795009217854483,'{"seen": 3}');
CREATE TABLE jobs (
	id INTEGER NOT NULL, 
	kind VARCHAR(20) NOT NULL, 
	model VARCHAR(200) NOT NULL, 
	status VARCHAR(12) NOT NULL, 
	progress FLOAT NOT NULL, 
	message TEXT NOT NULL, 
	parameters TEXT NOT NULL, 
	result TEXT, 
	"by" VARCHAR(200) NOT NULL, 
	at BIGINT NOT NULL, 
	finished BIGINT, 
	PRIMARY KEY (id)
);
INSERT INTO "jobs" VALUES(1,'retrain','m','done',1.0,'version 2 is ready','{"file": "a.csv"}','{"version": 2}','ada',1795009217761126,1795009217778492);
INSERT INTO "jobs" VALUES(2,'retrain','m','failed',0.0,'no such file','{"file": "a.csv"}','null','ada',1795009217766518,1795009217790473);
INSERT INTO "jobs" VALUES(3,'recalibrate','m','running',0.0,'','{"threshold": 0.2}',NULL,'bob',1795009217798441,NULL);
CREATE TABLE keys (
	id INTEGER NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	role VARCHAR(10) NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	at BIGINT NOT NULL, 
	revoked BIGINT, 
	PRIMARY KEY (id), 
	UNIQUE (name), 
	UNIQUE (hash)
);
INSERT INTO "keys" VALUES(1,'line 3','scorer','f90cacffe19a94f9bd48ae7fa714c5389a8352a0bea9c18345a8d8a9e1543fb6',1795009217718311,1795009217832125);
INSERT INTO "keys" VALUES(2,'bob','reviewer','76646626ecaa3bd60fe9490739aaa1e47efda5adb4c9deff67c0001934390564',1795009217826593,NULL);
CREATE TABLE model_versions (
	id INTEGER NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	version INTEGER NOT NULL, 
	sha256 VARCHAR(64) NOT NULL, 
	rule VARCHAR(16) NOT NULL, 
	rule_content TEXT NOT NULL, 
	path TEXT NOT NULL, 
	origin VARCHAR(20) NOT NULL, 
	parent INTEGER, 
	evaluation TEXT, 
	at BIGINT NOT NULL, 
	"by" VARCHAR(200) NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (name, version)
);
INSERT INTO "model_versions" VALUES(1,'m',1,'0','r','{"referral_threshold": 0.1}','somewhere','given',NULL,NULL,1795009217724765,'ada');
INSERT INTO "model_versions" VALUES(2,'m',2,'1','r','{"referral_threshold": 0.1}','somewhere','given',NULL,'{"new": {"wrong": 0.25}}',1795009217738912,'ada');
CREATE TABLE reviews (
	id INTEGER NOT NULL, 
	case_id INTEGER NOT NULL, 
	reviewer VARCHAR(200) NOT NULL, 
	label VARCHAR(1), 
	comment TEXT NOT NULL, 
	withdraws INTEGER, 
	at BIGINT NOT NULL, 
	audit INTEGER NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(case_id) REFERENCES cases (id), 
	UNIQUE (withdraws), 
	FOREIGN KEY(withdraws) REFERENCES reviews (id)
);
INSERT INTO "reviews" VALUES(1,1,'ada','A','worn die',NULL,1795009217703236,2);
INSERT INTO "reviews" VALUES(2,2,'bob','I','',NULL,1795009217707803,3);
INSERT INTO "reviews" VALUES(3,2,'bob',NULL,'',2,1795009217713640,4);
CREATE TABLE sessions (
	hash VARCHAR(64) NOT NULL, 
	key_id INTEGER NOT NULL, 
	until BIGINT NOT NULL, 
	PRIMARY KEY (hash), 
	FOREIGN KEY(key_id) REFERENCES keys (id)
);
INSERT INTO "sessions" VALUES('314c40a1e378438f2d7780ba78338708ce0141a85887cccd8e6a5417492d5130',2,1795052417841975);
CREATE INDEX cases_by_machine ON cases (machine, at);
CREATE INDEX cases_by_age ON cases (status, at);
CREATE INDEX cases_by_uncertainty ON cases (status, total);
CREATE INDEX ix_cases_audit ON cases (audit);
CREATE INDEX ix_reviews_audit ON reviews (audit);
CREATE INDEX reviews_by_reviewer ON reviews (reviewer, at);
CREATE INDEX ix_reviews_case_id ON reviews (case_id);
CREATE INDEX ix_claims_reviewer ON claims (reviewer);
CREATE INDEX alarm_events_by_machine ON alarm_events (machine, at);
CREATE INDEX ix_audit_at ON audit (at);
COMMIT;
