// Vectors of texts: POST /v1/embeddings, /embedding and Ollama's.
#include <cstring>

#include "server/answer_run.h"
#include "server/endpoints/endpoints.h"

namespace loci::server {
namespace {

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    uint32_t word = 0;
    for (size_t k = 0; k < 3; ++k) word = word << 8 | (k < n ? static_cast<unsigned char>(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k) out += k <= n ? kDigits[word >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

int64_t n_prompt_tokens(const AnswerView& a) {
  int64_t n = 0;
  for (const PromptTokens& prompt : a.request.prompts) n += static_cast<int64_t>(prompt.tokens.size());
  return n;
}

class EmbeddingFormat : public AnswerFormat {
 public:
  enum class Shape { kOpenAi, kNative, kOllama, kOllamaOne };
  EmbeddingFormat(Shape shape, int norm, bool as_base64) : shape_(shape), norm_(norm), base64_(as_base64) {}

  Json whole(const AnswerView& a) override {
    Json list = Json::array();
    for (size_t i = 0; i < a.choices.size(); ++i) {
      std::vector<float> vector = a.choices[i]->pooled();
      normalize(vector, norm_);
      list.push_back(shape_ == Shape::kOpenAi || shape_ == Shape::kNative ? entry(i, vector) : Json(vector));
    }
    Json out;
    switch (shape_) {
      case Shape::kNative:
        return list;
      case Shape::kOllamaOne:
        out["embedding"] = list[0];
        break;
      case Shape::kOllama:
        out["model"] = a.stamp.model;
        out["embeddings"] = std::move(list);
        out["prompt_eval_count"] = n_prompt_tokens(a);
        break;
      case Shape::kOpenAi:
        out["object"] = "list";
        out["model"] = a.stamp.model;
        out["data"] = std::move(list);
        out["usage"]["prompt_tokens"] = out["usage"]["total_tokens"] = n_prompt_tokens(a);
        break;
    }
    return out;
  }
  void delta(EventStream&, const AnswerView&, const ChoiceDelta&) override {}  // never streamed
  void finish(EventStream&, const AnswerView&, size_t) override {}
  void end(EventStream&, const AnswerView&) override {}

 private:
  Json entry(size_t index, const std::vector<float>& vector) const {
    Json out;
    if (shape_ == Shape::kOpenAi) out["object"] = "embedding";
    out["index"] = index;
    if (shape_ == Shape::kNative) {
      out["embedding"] = Json::array({vector});
    } else if (base64_) {
      out["embedding"] = base64({reinterpret_cast<const char*>(vector.data()), vector.size() * sizeof(float)});
    } else {
      out["embedding"] = vector;
    }
    return out;
  }

  Shape shape_;
  int norm_;
  bool base64_;
};

constexpr int kEuclidean = 2;
constexpr int kMaxNorm = 64;

// `name`: the field that holds a text, or several.
void run_embeddings(Service& service, Exchange& exchange, const BodyFields& fields, const char* name,
                    EmbeddingFormat::Shape shape) {
  const Json* input = fields.find(name);
  if (input == nullptr) fail(ErrorKind::kInvalidInput, "'", name, "' is required");
  if (input->empty() || *input == "") reject_field(name, "expected at least one token, found an empty input");
  const std::string format = fields.string("encoding_format").value_or("float");
  if (format != "float" && format != "base64") {
    reject_field("encoding_format", "expected float or base64, found '", format, "'");
  }
  if (const auto n = fields.integer("dimensions"); n && *n != service.embedding_size()) {
    refuse_field("dimensions", "the model has ", service.embedding_size(), ", found ", *n);
  }
  const auto norm = static_cast<int>(fields.integer("embd_normalize", -1, kMaxNorm).value_or(kEuclidean));
  Json body;
  body["prompt"] = *input;
  body["max_tokens"] = 0;
  CompletionRequest request = parse_completion(Endpoint::kCompletions, body, service.defaults());
  request.pooling = service.settings().pooling;
  run_answer(service, exchange, std::move(request), "embd-",
             std::make_unique<EmbeddingFormat>(shape, norm, format == "base64"));
}

}  // namespace

void serve_embeddings(Service& service, Exchange& exchange) {
  const Json json = exchange.json();
  run_embeddings(service, exchange, BodyFields(json), "input", EmbeddingFormat::Shape::kOpenAi);
}

void serve_native_embeddings(Service& service, Exchange& exchange) {
  const Json json = exchange.json();
  const BodyFields fields(json);
  const char* name = fields.find("content") != nullptr ? "content" : "input";
  run_embeddings(service, exchange, fields, name, EmbeddingFormat::Shape::kNative);
}

void serve_ollama_embed(Service& service, Exchange& exchange) {
  const Json json = exchange.json();
  run_embeddings(service, exchange, BodyFields(json), "input", EmbeddingFormat::Shape::kOllama);
}

void serve_ollama_embeddings(Service& service, Exchange& exchange) {
  const Json json = exchange.json();
  run_embeddings(service, exchange, BodyFields(json), "prompt", EmbeddingFormat::Shape::kOllamaOne);
}

}  // namespace loci::server
