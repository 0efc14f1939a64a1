#include "server/tools/output_parser.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/text/unicode.h"
#include "kernels/check.h"
#include "server/tools/call_id.h"

namespace loci::server {
namespace {

using Kind = OutputDelta::Kind;

constexpr size_t kMaxHeaderBytes = 400;
// Markers that began no call are text, and the text behind them is looked at anew. Past so many, all is text.
constexpr int kMaxFailures = 1000;

enum class Action { kCalls, kHeader, kDrop };

struct Marker {
  std::string_view text;
  Action action = Action::kDrop;
  std::vector<const CallFormat*> formats;  // kCalls: those that begin so
  bool at_start_only = false;
};

std::vector<Marker> markers_of_text(const Dialect* dialect, bool with_calls) {
  std::vector<Marker> markers;
  if (dialect == nullptr) return markers;
  if (dialect->headers == Headers::kChannels) markers.push_back({"<|channel|>", Action::kHeader, {}, false});
  if (dialect->headers == Headers::kChannels || dialect->headers == Headers::kRecipients) {
    markers.push_back({"<|start|>", Action::kHeader, {}, false});
  }
  if (dialect->headers == Headers::kNames) markers.push_back({">>>", Action::kHeader, {}, false});
  const auto add = [&](std::string_view text, const CallFormat& format) {
    if (text.empty()) return;
    auto found = std::find_if(markers.begin(), markers.end(), [&](const Marker& m) { return m.text == text; });
    if (found == markers.end()) found = markers.insert(found, {text, Action::kCalls, {}, format.is_bare});
    found->formats.push_back(&format);
  };
  if (with_calls) {
    for (const CallFormat& format : dialect->formats) {
      add(format.open, format);
      if (format.open.empty() || format.open_is_optional) add(format.call_open, format);
    }
  }
  for (const std::string_view tag : dialect->dropped) {
    const bool is_known = std::any_of(markers.begin(), markers.end(), [&](const Marker& m) { return m.text == tag; });
    if (!is_known) markers.push_back({tag, Action::kDrop, {}, false});
  }
  return markers;
}

// The longest beginning of `bytes` that ends with a whole character.
size_t whole_characters(std::string_view bytes) {
  for (size_t back = 1; back <= std::min<size_t>(3, bytes.size()); ++back) {
    const size_t at = bytes.size() - back;
    if ((static_cast<unsigned char>(bytes[at]) & 0xC0) == 0x80) continue;
    return unicode::decode(bytes, at).truncated ? at : bytes.size();
  }
  return bytes.size();
}

struct Header {
  enum class Kind { kContent, kReasoning, kCall, kNone } kind = Kind::kNone;
  std::string name;
};

// What a message's header says of it.
Header read_header(Headers headers, std::string_view text, const ToolSet& tools) {
  Header header;
  if (headers == Headers::kNames) {
    const std::string name(trimmed(text));
    if (name == "all") header.kind = Header::Kind::kContent;
    if (tools.has(name)) header = {Header::Kind::kCall, name};
    return header;
  }
  constexpr std::string_view kTo = "to=", kChannel = "<|channel|>";
  std::string_view recipient;
  if (const size_t at = text.find(kTo); at != std::string_view::npos) {
    recipient = text.substr(at + kTo.size());
    recipient = recipient.substr(0, recipient.find_first_of(" \t\r\n<"));
  }
  header.kind = Header::Kind::kContent;
  if (headers == Headers::kRecipients) {
    if (recipient == "self") header.kind = Header::Kind::kReasoning;
    return header;
  }
  const size_t at = text.rfind(kChannel);
  const std::string_view channel = trimmed(at == std::string_view::npos ? text : text.substr(at + kChannel.size()));
  if (!recipient.empty() && recipient != "user" && recipient != "assistant" && recipient != "all") {
    header = {Header::Kind::kCall, std::string(recipient)};
  } else if (channel.substr(0, 8) == "analysis") {
    header.kind = Header::Kind::kReasoning;
  }
  return header;
}

}  // namespace

class OutputParser::Machine : private CallSink {
 public:
  Machine(const Dialect* dialect, OutputOptions options)
      : dialect_(dialect),
        options_(std::move(options)),
        has_calls_(dialect != nullptr && !options_.tools.empty()),
        splitter_(options_.opened_reasoning, !options_.split_reasoning),
        markers_(markers_of_text(dialect, has_calls_)) {
    for (const Marker& marker : markers_) is_first_byte_[static_cast<unsigned char>(marker.text[0])] = true;
    if (dialect != nullptr && dialect->headers != Headers::kNone) {
      state_ = dialect->headers == Headers::kNames ? State::kHeader : State::kMaybeHeader;
    }
  }

  std::vector<OutputDelta> feed(std::string_view text, bool at_end) {
    out_.clear();
    tail_ += text;
    const size_t n_whole = at_end ? tail_.size() : whole_characters(tail_);
    const std::string_view whole = std::string_view(tail_).substr(0, n_whole);
    take(splitter_.add(unicode::is_valid(whole) ? std::string(whole) : unicode::sanitized(whole)));
    tail_.erase(0, n_whole);
    if (at_end) {
      take(splitter_.finish());
      advance(true);
      // Behind calls, white space is nobody's.
      if (n_calls_ == 0 || !has_calls_) tell(Kind::kContent, space_);
    }
    return std::exchange(out_, {});
  }

  int n_calls() const { return n_calls_; }
  bool has_broken() const { return has_broken_; }
  bool is_thinking() const { return splitter_.is_thinking() || mode_ == Kind::kReasoning; }
  bool is_done() const { return done_; }

 private:
  enum class State { kText, kMaybeHeader, kHeader, kCalls };

  void take(const std::vector<AnswerPart>& parts) {
    for (const AnswerPart& part : parts) {
      if (part.thinking) {
        tell(options_.split_reasoning ? Kind::kReasoning : Kind::kContent, part.text);
      } else {
        held_ += part.text;
        advance(false);
      }
    }
  }

  // Everything that can be told of held_.
  void advance(bool at_end) {
    at_end_ = at_end;
    bool goes_on = true;
    while (goes_on && !done_) {
      switch (state_) {
        case State::kText:
          goes_on = text();
          break;
        case State::kMaybeHeader:
          goes_on = maybe_header();
          break;
        case State::kHeader:
          goes_on = header();
          break;
        case State::kCalls:
          goes_on = calls();
          break;
      }
    }
    held_.erase(0, done_ ? held_.size() : begin_);
    begin_ = 0;
  }

  std::string_view rest() const { return std::string_view(held_).substr(begin_); }

  // Tells text up to the next marker and acts on that. False: the rest must wait.
  bool text() {
    const std::string_view text = rest();
    size_t at = 0;
    const Marker* found = nullptr;
    bool may_come = false, is_first = at_start_;
    for (; at < text.size(); ++at) {
      if (at > 0) is_first = is_first && is_space(text[at - 1]);
      if (!is_first_byte_[static_cast<unsigned char>(text[at])] || n_failures_ > kMaxFailures) continue;
      for (const Marker& marker : markers_) {
        if (mode_ == Kind::kReasoning && marker.action == Action::kCalls) continue;
        if (marker.at_start_only && !is_first) continue;
        const std::string_view there = text.substr(at, marker.text.size());
        if (there == marker.text) {
          if (found == nullptr || marker.text.size() > found->text.size()) found = &marker;
        } else if (!at_end_ && there.size() < marker.text.size() && marker.text.substr(0, there.size()) == there) {
          may_come = true;
        }
      }
      if (may_come) found = nullptr;  // of two that begin alike the longer one counts
      if (found != nullptr || may_come) break;
    }
    tell_text(text.substr(0, at));
    begin_ += at;
    if (found == nullptr) return false;
    if (found->action == Action::kDrop) {
      begin_ += found->text.size();
      mode_ = Kind::kContent;
      return true;
    }
    marker_ = found;
    if (found->action == Action::kHeader) {
      state_ = State::kHeader;
    } else {
      begin_reading(0);
    }
    return true;
  }

  // The prompt ended inside a header, which goes on when it names a recipient at once.
  bool maybe_header() {
    Cursor cursor{rest(), 0, at_end_};
    const Match space = skip_space(cursor);
    const Match to = space == Match::kYes ? loci::server::take(cursor, "to=") : space;
    if (to == Match::kMore) return false;
    marker_ = nullptr;
    state_ = to == Match::kYes ? State::kHeader : State::kText;
    return true;
  }

  bool header() {
    const std::string_view end = dialect_->headers == Headers::kNames ? "\n" : "<|message|>";
    const size_t n_marker = marker_ == nullptr ? 0 : marker_->text.size();
    const std::string_view text = rest().substr(n_marker, kMaxHeaderBytes);
    const size_t found = text.find(end);
    if (found == std::string_view::npos && !at_end_ && text.size() < kMaxHeaderBytes) return false;
    Header header;
    if (found != std::string_view::npos) {
      header = read_header(dialect_->headers, text.substr(0, found), options_.tools);
    }
    if (header.kind == Header::Kind::kNone) {
      give_up();
      return true;
    }
    mode_ = header.kind == Header::Kind::kReasoning ? Kind::kReasoning : Kind::kContent;
    if (header.kind == Header::Kind::kCall && has_calls_) {
      reader_ = make_arguments_reader(header.name);
      n_candidates_ = 1;
      candidate_ = 0;
      pos_ = n_marker + found + end.size();
      state_ = State::kCalls;
      return true;
    }
    begin_ += n_marker + found + end.size();
    state_ = State::kText;
    return true;
  }

  void begin_reading(size_t candidate) {
    const CallFormat& format = *marker_->formats[candidate];
    const bool began_with_call = marker_->text != format.open;
    reader_ = make_call_reader(format, options_.tools, began_with_call);
    n_candidates_ = marker_->formats.size();
    candidate_ = candidate;
    pos_ = format.is_bare ? 0 : marker_->text.size();
    state_ = State::kCalls;
  }

  bool calls() {
    Cursor cursor{rest(), pos_, at_end_};
    cursor_ = &cursor;
    n_told_ = 0;
    const Match match = reader_->read(cursor, *this);
    pos_ = cursor.pos;
    cursor_ = nullptr;
    if (done_) return false;
    if (match == Match::kMore) {
      begin_ += n_told_;
      pos_ -= n_told_;
      return false;
    }
    begin_ += n_told_;
    pos_ -= n_told_;
    if (match == Match::kYes) {
      begin_ += pos_;
      leave_calls();
      return true;
    }
    if (open_) {  // it was begun and breaks off here
      if (options_.stream_arguments) {
        has_broken_ = true;
        ++call_;
        ended_any_ = true;
      }
      open_ = false;
      pending_.clear();
    }
    if (ended_any_) {
      leave_calls();
      ++n_failures_;
    } else if (candidate_ + 1 < n_candidates_) {
      begin_reading(candidate_ + 1);
    } else {
      give_up();
    }
    return true;
  }

  void leave_calls() {
    reader_.reset();
    ended_any_ = false;
    at_start_ = false;
    state_ = State::kText;
  }

  // What followed the marker is no call or header: the marker is text.
  void give_up() {
    const size_t n_bytes = marker_ == nullptr ? 0 : marker_->text.size();
    tell_text(rest().substr(0, n_bytes));
    begin_ += n_bytes;
    ++n_failures_;
    reader_.reset();
    ended_any_ = false;
    state_ = State::kText;
  }

  // CallSink
  void begin(const std::string& name, const std::string& id) override {
    open_ = true;
    OutputDelta delta;
    delta.kind = Kind::kToolCall;
    delta.call = call_;
    delta.id = id.empty() ? call_id(options_.id_seed, call_, dialect_->id_bytes) : id;
    delta.name = name;
    put(std::move(delta));
  }
  void arguments(std::string_view json_text) override {
    if (json_text.empty()) return;
    OutputDelta delta;
    delta.kind = Kind::kToolCall;
    delta.text = json_text;
    delta.call = call_;
    put(std::move(delta));
  }
  void put(OutputDelta delta) {
    if (done_) return;
    std::vector<OutputDelta>& deltas = options_.stream_arguments ? out_ : pending_;
    if (options_.stream_arguments) {
      space_.clear();
      n_told_ = cursor_->pos;
    }
    const bool goes_on = !deltas.empty() && delta.name.empty() && deltas.back().kind == Kind::kToolCall &&
                         deltas.back().call == delta.call && deltas.back().name.empty();
    if (goes_on) {
      deltas.back().text += delta.text;
    } else {
      deltas.push_back(std::move(delta));
    }
  }
  void end() override {
    if (done_) return;
    space_.clear();
    std::move(pending_.begin(), pending_.end(), std::back_inserter(out_));
    pending_.clear();
    n_told_ = cursor_->pos;
    open_ = false;
    ended_any_ = true;
    ++call_;
    ++n_calls_;
    done_ = done_ || !options_.parallel_calls;
  }

  static bool is_blank(std::string_view text) { return text.find_first_not_of(kSpaces) == std::string_view::npos; }

  // Text of the answer, or of the message at hand. White space at its end waits for what follows it.
  void tell_text(std::string_view text) {
    if (text.empty()) return;
    if (!is_blank(text)) at_start_ = false;
    if (mode_ == Kind::kReasoning) {
      tell(options_.split_reasoning ? Kind::kReasoning : Kind::kContent, text);
      return;
    }
    if (!has_calls_) {
      tell(Kind::kContent, text);
      return;
    }
    const size_t end = text.find_last_not_of(kSpaces);
    if (end == std::string_view::npos) {
      space_ += text;
      return;
    }
    tell(Kind::kContent, std::exchange(space_, "") + std::string(text.substr(0, end + 1)));
    space_ = text.substr(end + 1);
  }

  void tell(Kind kind, std::string_view text) {
    if (text.empty()) return;
    if (!out_.empty() && out_.back().kind == kind && kind != Kind::kToolCall) {
      out_.back().text += text;
      return;
    }
    OutputDelta delta;
    delta.kind = kind;
    delta.text = text;
    out_.push_back(std::move(delta));
  }

  const Dialect* dialect_;
  OutputOptions options_;
  bool has_calls_;
  ReasoningSplitter splitter_;
  std::vector<Marker> markers_;
  std::array<bool, 256> is_first_byte_{};

  std::string tail_;  // bytes of a character that is not whole
  std::string held_;  // text of the answer that is not told, from begin_ on
  size_t begin_ = 0;
  bool at_end_ = false;
  std::vector<OutputDelta> out_;
  State state_ = State::kText;
  Kind mode_ = Kind::kContent;  // what text is now
  bool at_start_ = true;        // nothing but white space was told
  std::string space_;           // white space that waits
  int n_failures_ = 0;

  // kHeader, kCalls
  const Marker* marker_ = nullptr;  // that began it; nullptr: the prompt did
  std::unique_ptr<CallReader> reader_;
  size_t candidate_ = 0, n_candidates_ = 0;
  size_t pos_ = 0;  // of the reader, from begin_
  const Cursor* cursor_ = nullptr;
  size_t n_told_ = 0;                 // text that the deltas stand for, from begin_
  std::vector<OutputDelta> pending_;  // of a call that is not whole
  bool open_ = false;                 // a call has begun
  bool ended_any_ = false;            // of this group
  int call_ = 0, n_calls_ = 0;
  bool has_broken_ = false, done_ = false;
};

OutputParser::OutputParser(const Dialect* dialect, OutputOptions options)
    : machine_(std::make_unique<Machine>(dialect, std::move(options))) {}
OutputParser::~OutputParser() = default;
OutputParser::OutputParser(OutputParser&&) noexcept = default;
OutputParser& OutputParser::operator=(OutputParser&&) noexcept = default;

std::vector<OutputDelta> OutputParser::feed(std::string_view text) { return machine_->feed(text, false); }
std::vector<OutputDelta> OutputParser::finish() { return machine_->feed({}, true); }
int OutputParser::n_calls() const { return machine_->n_calls(); }
bool OutputParser::has_broken() const { return machine_->has_broken(); }
bool OutputParser::is_thinking() const { return machine_->is_thinking(); }
bool OutputParser::is_done() const { return machine_->is_done(); }

void ParsedOutput::add(const std::vector<OutputDelta>& deltas) {
  for (const OutputDelta& delta : deltas) {
    switch (delta.kind) {
      case Kind::kContent:
        content += delta.text;
        break;
      case Kind::kReasoning:
        reasoning += delta.text;
        break;
      case Kind::kToolCall:
        if (!delta.name.empty()) {
          LOCI_CHECK(static_cast<size_t>(delta.call) == calls.size(), "calls come one after the other");
          calls.push_back({delta.id, delta.name, ""});
        }
        calls.back().arguments += delta.text;
        break;
    }
  }
}

}  // namespace loci::server
