// The server as a client of HTTP sees it: keys, origins, limits, and what is no request at all.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "server/http/gatekeeper.h"
#include "server/http/listener.h"
#include "tests/server/served_model.h"

namespace loci::test {
namespace {

using server::Json;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(Http, SaysThatItIsThereAndWhatItServes) {
  ServedOptions options;
  options.service.aliases = {"first", "second"};
  ServedModel model(options);
  for (const char* path : {"/health", "/v1/health"}) {
    const HttpAnswer answer = model.get(path);
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.json()["status"], "ok");
    EXPECT_EQ(answer.headers.at("content-type"), "application/json; charset=utf-8");
  }
  const Json models = model.get("/v1/models").json();
  EXPECT_EQ(models["data"][0]["id"], "first");
  EXPECT_EQ(models["data"][0]["aliases"], Json::parse(R"(["second"])"));
  EXPECT_EQ(models["data"][0]["meta"]["n_ctx"], 512);
  const Json props = model.get("/props").json();
  EXPECT_EQ(props["total_slots"], 4);
  EXPECT_EQ(props["default_generation_settings"]["params"]["top_k"], 40);
  EXPECT_EQ(props["model_path"].get<std::string>().find('/'), std::string::npos);  // no folders on the network
  EXPECT_EQ(props["modalities"]["vision"], false);
}

TEST(Http, SaysThatItIsLoading) {
  ServedOptions options;
  options.load = false;
  ServedModel model(options);
  const HttpAnswer answer = model.get("/health");
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.body, R"({"error":{"code":503,"message":"Loading model","type":"unavailable_error"}})");
}

TEST(Http, TokensGoThereAndBack) {
  ServedModel model;
  const Json tokens = model.post("/tokenize", R"({"content":"h\u00e9<|im_end|>"})").json()["tokens"];
  ASSERT_GE(tokens.size(), 2u);
  EXPECT_EQ(tokens.back(), 264);
  EXPECT_EQ(model.post("/detokenize", Json({{"tokens", tokens}}).dump()).json()["content"], "h\u00e9<|im_end|>");
  const Json pieces = model.post("/tokenize", R"({"content":"\u00e9","with_pieces":true})").json()["tokens"];
  EXPECT_EQ(pieces[0]["piece"], Json::parse("[195]"));  // half a character
  EXPECT_EQ(model.post("/tokenize", R"({"content":"<|im_end|>","parse_special":false})").json()["tokens"].size(), 10u);
  EXPECT_EQ(model.post("/detokenize", R"({"tokens":[265]})").status, 400);
  EXPECT_EQ(model.post("/tokenize", "{}").json()["error"]["message"], "'content' is required");
  EXPECT_EQ(model.post("/apply-template", R"({"messages":[{"role":"user","content":"hi"}]})").json()["prompt"],
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(Http, ErrorsHaveTheirShape) {
  ServedModel model;
  EXPECT_EQ(model.get("/nothing").body,
            R"({"error":{"code":404,"message":"File Not Found","type":"not_found_error"}})");
  EXPECT_EQ(model.get("/v1/chat/completions").status, 405);
  const HttpAnswer broken = model.post("/v1/completions", "{\"prompt\": ");
  EXPECT_EQ(broken.status, 400);
  EXPECT_EQ(broken.json()["error"]["type"], "invalid_request_error");
  EXPECT_EQ(model.post("/v1/completions", R"({"prompt":"x","top_k":"many"})").json()["error"]["message"],
            "Field 'top_k': expected a whole number, found \"many\"");
  for (const char* path : {"/v1/completions", "/tokenize", "/apply-template"}) {
    EXPECT_EQ(model.post(path, "{\"x\":" + std::string(100000, '[') + std::string(100000, ']') + "}").status, 400);
  }
  const HttpAnswer metrics = model.get("/metrics");
  EXPECT_EQ(metrics.status, 501);
  EXPECT_EQ(model.get("/health").status, 200);
}

TEST(Http, KeysLetIn) {
  ServedOptions options;
  options.http.access.api_keys = {"first+key", "k2"};
  ServedModel model(options);
  EXPECT_EQ(model.get("/health").status, 200);
  EXPECT_EQ(model.get("/v1/health").status, 200);
  const HttpAnswer refused = model.get("/v1/models");
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.body, R"({"error":{"code":401,"message":"Invalid API Key","type":"authentication_error"}})");
  for (const HeaderList& headers : {HeaderList{{"Authorization", "Bearer first+key"}},
                                    HeaderList{{"authorization", "bearer k2"}}, HeaderList{{"X-Api-Key", "k2"}}}) {
    EXPECT_EQ(model.get("/v1/models", headers).status, 200);
  }
  for (const char* value : {"Bearer", "Bearer ", "Bearer k", "Bearer k22", "Bearer first key", "Basic k2", "k2"}) {
    EXPECT_EQ(model.get("/v1/models", {{"Authorization", value}}).status, 401) << value;
  }
  // A body is not waited for when the key is wrong.
  Socket socket(model.port());
  socket.send("POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n");
  const HttpAnswer early = socket.read_answer();
  EXPECT_EQ(early.status, 401);
  EXPECT_EQ(early.headers.at("connection"), "close");
  // Unknown paths tell nothing without a key.
  EXPECT_EQ(model.get("/nothing").status, 401);
}

TEST(Http, SecretsAreComparedWhole) {
  EXPECT_TRUE(server::equal_secret("abc", "abc"));
  for (const char* other : {"", "ab", "abcd", "abd", "abcabc"}) EXPECT_FALSE(server::equal_secret(other, "abc"));
}

TEST(Http, OnlyLocalPagesMayRead) {
  ServedModel model;
  const auto allowed = [&](const std::string& origin) {
    const HttpAnswer answer = model.get("/health", {{"Origin", origin}});
    const auto it = answer.headers.find("access-control-allow-origin");
    return it == answer.headers.end() ? "" : it->second;
  };
  for (const char* local : {"http://localhost", "http://localhost:3000", "https://127.0.0.1:8443", "http://[::1]:1"}) {
    EXPECT_EQ(allowed(local), local);
  }
  for (const char* other :
       {"http://localhost.example.com", "http://example.com", "null", "http://localhost:3000.example.com",
        "http://localhost:", "http://127.0.0.1@example.com", "http://localhost%0d%0ab"}) {
    EXPECT_EQ(allowed(other), "") << other;
  }
  const HttpAnswer preflight =
      http(model.port(), "OPTIONS", "/v1/chat/completions", {}, {{"Origin", "http://localhost"}});
  EXPECT_EQ(preflight.status, 200);
  EXPECT_EQ(preflight.headers.at("access-control-allow-methods"), "GET, POST, DELETE, OPTIONS");
  ServedOptions options;
  options.http.access.cors_origins = "*";
  ServedModel open(options);
  EXPECT_EQ(open.get("/health", {{"Origin", "http://example.com"}}).headers.at("access-control-allow-origin"), "*");
}

TEST(Http, BodiesComeInChunksOrWithALength) {
  ServedModel model;
  const std::string head = "POST /detokenize HTTP/1.1\r\nHost: x\r\n";
  const auto answer = [&](const std::string& text) {
    Socket socket(model.port());
    socket.send(text);
    return socket.read_answer();
  };
  const std::string chunked = head + "Transfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(answer(chunked + "8\r\n{\"tokens\r\n5;x=y\r\n\":[]}\r\n0\r\nTrailer: 1\r\n\r\n").json()["content"], "");
  for (const char* bad : {"-2\r\n", "+5\r\nabcde\r\n", " 5\r\nabcde\r\n", "0x5\r\nabcde\r\n", "FFFFFFFFFFFFFFFFF\r\n",
                          "\r\n", "5\nabcde\n", "5\r\nabcdeXX", "zz\r\n"}) {
    EXPECT_EQ(answer(chunked + bad).status, 400) << bad;
  }
  EXPECT_EQ(answer(chunked + "FFFFFFFFFFFFFFF\r\n").status, 413);
  EXPECT_EQ(answer(head + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}").status, 400);
  EXPECT_EQ(answer(head + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ").status, 400);
  EXPECT_EQ(answer(head + "Content-Length: -2\r\n\r\n{}").status, 400);
  EXPECT_EQ(answer(head + "Content-Length: +2\r\n\r\n{}").status, 400);
  EXPECT_EQ(answer(head + "Transfer-Encoding: gzip\r\n\r\n{}").status, 400);
  EXPECT_EQ(answer(head + "Expect: 100-continue\r\nContent-Length: 13\r\n\r\n{\"tokens\":[]}").status, 200);
}

TEST(Http, BodiesHaveALimit) {
  ServedOptions options;
  options.http.limits.max_body_bytes = 1000;
  ServedModel model(options);
  const std::string json = R"({"content":""})";
  EXPECT_EQ(model.post("/tokenize", json + std::string(1000 - json.size(), ' ')).status, 200);
  EXPECT_EQ(model.post("/tokenize", json + std::string(1001 - json.size(), ' ')).status, 413);
  Socket socket(model.port());
  socket.send("POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000000\r\n\r\n");
  EXPECT_EQ(socket.read_answer().status, 413);  // without waiting for it
  Socket chunks(model.port());
  chunks.send("POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 300; ++i) {
    if (!chunks.send("5\r\nabcde\r\n")) break;
  }
  EXPECT_EQ(chunks.read_answer().status, 413);
}

TEST(Http, HeadersHaveALimit) {
  ServedModel model;
  const std::string filler(65536, 'A');
  for (const std::string& start :
       {std::string(), std::string("GET /health HTTP/1.1\r\nX: "), std::string("GET /health HTTP/1.1\r\n")}) {
    Socket socket(model.port());
    socket.send(start);
    bool open = true;
    for (int i = 0; i < 200 && open; ++i) open = socket.send(i % 2 == 0 ? filler : "a: b\r\n");  // 6 MB
    const std::string answer = socket.read_all();
    EXPECT_TRUE(answer.empty() || answer.rfind("HTTP/1.1 4", 0) == 0) << answer;
  }
  EXPECT_EQ(model.get("/" + std::string(9000, 'a')).status, 414);
  EXPECT_EQ(model.get("/health", {{"Range", "bytes=0-1" + std::string(2000, ',')}}).status / 100, 4);
  EXPECT_EQ(model.get("/health", {{"Range", "bytes=0-0,0-0"}}).status, 200);  // ranges mean nothing here
  Socket socket(model.port());
  socket.send("nonsense\r\n\r\n");
  EXPECT_EQ(socket.read_answer().status, 400);
  EXPECT_EQ(model.get("/health").status, 200);
}

TEST(Http, SlowClientsLoseTheirThread) {
  ServedOptions options;
  options.http.limits.max_threads = 2;
  options.http.limits.header_timeout_ms = options.http.limits.body_timeout_ms = 300;
  ServedModel model(options);
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::unique_ptr<Socket>> slow;
  for (int i = 0; i < 4; ++i) {
    slow.push_back(std::make_unique<Socket>(model.port()));
    slow.back()->send(i % 2 == 0 ? "GET /hea" : "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n{");
  }
  EXPECT_EQ(model.get("/health").status, 200);
  EXPECT_LT(seconds_since(start), 5);
  EXPECT_EQ(slow[1]->read_answer().status, 400);
}

TEST(Http, AConnectionServesManyRequests) {
  ServedModel model;
  Socket socket(model.port());
  const std::string one = request_text("POST", "/detokenize", R"({"tokens":[97]})");
  socket.send(one + one + request_text("GET", "/health"));  // pipelined
  EXPECT_EQ(socket.read_answer().status, 200);
  EXPECT_EQ(socket.read_answer().status, 200);
  EXPECT_EQ(socket.read_answer().json()["status"], "ok");
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 50; ++i) {
    socket.send(one);
    ASSERT_EQ(socket.read_answer().status, 200);
  }
  EXPECT_LT(seconds_since(start), 1.5);  // not 40 ms each
  // HEAD has no body, and what follows is understood.
  socket.send(request_text("HEAD", "/health"));
  EXPECT_EQ(socket.read_until("\r\n\r\n").rfind("HTTP/1.1 200", 0), 0u);
  socket.send(request_text("GET", "/health"));
  EXPECT_EQ(socket.read_answer().status, 200);
}

TEST(Http, PathsMayHaveAPrefix) {
  ServedOptions options;
  options.http.api_prefix = "/llm";
  ServedModel model(options);
  EXPECT_EQ(model.get("/llm/health").status, 200);
  EXPECT_EQ(model.get("/health").status, 404);
  EXPECT_EQ(model.get("/llmhealth").status, 404);
}

TEST(Http, LoopbackIsKnown) {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "localhost", "::1"}) EXPECT_TRUE(server::is_loopback(host));
  for (const char* host : {"0.0.0.0", "192.168.1.2", "::", "example.com", ""}) {
    EXPECT_FALSE(server::is_loopback(host)) << host;
  }
}

}  // namespace
}  // namespace loci::test
