#include "main/conversation.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "main/text_input.h"

namespace loci::cli {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "loci-conversation";
constexpr int kVersion = 1;

[[noreturn]] void refuse(const std::string& path, const std::string& place, const std::string& expected,
                         const json& found) {
  fail(ErrorKind::kInvalidInput, path, ": ", place, ": expected ", expected, ", found ",
       found.is_null() ? "nothing" : found.type_name());
}

const json& member(const json& object, const char* name) {
  static const json kNothing;
  const auto it = object.find(name);
  return it == object.end() ? kNothing : *it;
}

std::string string_member(const std::string& path, const std::string& place, const json& object, const char* name) {
  const json& value = member(object, name);
  if (!value.is_string()) refuse(path, place + name, "a string", value);
  return value.get<std::string>();
}

}  // namespace

std::vector<ChatMessage> Conversation::prompt_messages() const {
  std::vector<ChatMessage> all;
  if (system) all.push_back({"system", *system, ""});
  all.insert(all.end(), messages.begin(), messages.end());
  return all;
}

std::string conversation_text(const Conversation& conversation, const std::string& model) {
  json file;
  file["format"] = kFormat;
  file["version"] = kVersion;
  file["model"] = model;
  if (conversation.system) file["system"] = *conversation.system;
  file["messages"] = json::array();
  for (const ChatMessage& message : conversation.messages) {
    json entry{{"role", message.role}, {"content", message.content}};
    if (!message.reasoning_content.empty()) entry["reasoning_content"] = message.reasoning_content;
    file["messages"].push_back(std::move(entry));
  }
  json settings = json::object();
  for (const auto& [name, value] : sampling_values(conversation.sampling.params)) settings[name] = value;
  settings["predict"] = std::to_string(conversation.n_predict);
  if (conversation.thinking) settings["think"] = *conversation.thinking ? "on" : "off";
  file["settings"] = std::move(settings);
  return file.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

void save_conversation(const Conversation& conversation, const std::string& model, const std::string& path) {
  const std::string text = conversation_text(conversation, model);
  const std::string partial = path + ".partial";
  std::ofstream out(partial, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out || std::rename(partial.c_str(), path.c_str()) != 0) {
    const int reason = errno;
    unlink(partial.c_str());
    fail(ErrorKind::kInvalidInput, path, ": cannot be written: ", std::strerror(reason));
  }
}

Conversation load_conversation(const std::string& path, std::string& model) {
  return parse_conversation(read_text(path), path, model);
}

Conversation parse_conversation(const std::string& text, const std::string& path, std::string& model) {
  const json file = json::parse(text, nullptr, false);
  if (file.is_discarded() || !file.is_object()) {
    fail(ErrorKind::kInvalidInput, path, ": expected a conversation saved by /save, found ",
         file.is_discarded() ? "no valid JSON" : file.type_name());
  }
  if (string_member(path, "", file, "format") != kFormat) {
    fail(ErrorKind::kInvalidInput, path, ": format: expected ", kFormat, ", found ", member(file, "format").dump());
  }
  const json& version = member(file, "version");
  if (!version.is_number_integer() || version != kVersion) {
    fail(ErrorKind::kInvalidInput, path, ": version: expected ", kVersion, ", found ", version.dump());
  }
  Conversation out;
  model = string_member(path, "", file, "model");
  if (!member(file, "system").is_null()) out.system = string_member(path, "", file, "system");
  const json& messages = member(file, "messages");
  if (!messages.is_array()) refuse(path, "messages", "an array", messages);
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string place = "messages[" + std::to_string(i) + "].";
    if (!messages[i].is_object()) refuse(path, place, "an object", messages[i]);
    ChatMessage message;
    message.role = string_member(path, place, messages[i], "role");
    message.content = string_member(path, place, messages[i], "content");
    if (!member(messages[i], "reasoning_content").is_null()) {
      message.reasoning_content = string_member(path, place, messages[i], "reasoning_content");
    }
    const std::string expected = i % 2 == 0 ? "user" : "assistant";
    if (message.role != expected) {
      fail(ErrorKind::kInvalidInput, path, ": ", place, "role: expected ", expected, ", found ", message.role);
    }
    out.messages.push_back(std::move(message));
  }
  if (out.messages.size() % 2 != 0) {
    fail(ErrorKind::kInvalidInput, path, ": messages: expected an answer after the last question, found the end");
  }
  const json& settings = member(file, "settings");
  if (!settings.is_object()) refuse(path, "settings", "an object", settings);
  for (const auto& [name, value] : settings.items()) {
    if (!value.is_string()) refuse(path, "settings." + name, "a string", value);
    const std::string setting = value.get<std::string>();
    if (name == "think") {
      out.thinking = setting == "on";
    } else if (name == "predict") {
      char* end = nullptr;
      out.n_predict = std::strtoll(setting.c_str(), &end, 10);
      if (setting.empty() || *end != '\0' || out.n_predict < -1) {
        fail(ErrorKind::kInvalidInput, path, ": settings.predict: expected an integer from -1, found '", setting, "'");
      }
    } else {
      try {
        set_sampling_value(out.sampling, name, setting);
      } catch (const Error& error) {
        fail(ErrorKind::kInvalidInput, path, ": settings.", error.what());
      }
    }
  }
  return out;
}

}  // namespace loci::cli
