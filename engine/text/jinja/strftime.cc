#include "engine/text/jinja/strftime.h"

#include <cstdio>
#include <ctime>

#include "engine/text/jinja/value.h"
#include "kernels/error.h"

namespace loci::jinja {
namespace {

constexpr const char* kDays[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
constexpr const char* kMonths[] = {"January", "February", "March",     "April",   "May",      "June",
                                   "July",    "August",   "September", "October", "November", "December"};

struct Moment {
  int year, month, day, hour, minute, second;
  int weekday;   // 0 = Sunday
  int year_day;  // 0 = January 1st
};

bool is_leap(int year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

int days_before_month(int year, int month) {
  static constexpr int kBefore[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
  return kBefore[month - 1] + (month > 2 && is_leap(year));
}

Moment parse(const std::string& now) {
  Moment m{};
  int used = 0;
  const int n = std::sscanf(now.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d%n", &m.year, &m.month, &m.day, &m.hour, &m.minute,
                            &m.second, &used);
  const bool in_range = n == 6 && m.year >= 1 && m.month >= 1 && m.month <= 12 && m.day >= 1 && m.day <= 31 &&
                        m.hour >= 0 && m.hour < 24 && m.minute >= 0 && m.minute < 60 && m.second >= 0 && m.second < 62;
  if (!in_range || static_cast<size_t>(used) != now.size()) {
    throw RenderError(str("expected a time such as 2025-03-14T09:26:53, found '", now, "'"));
  }
  m.year_day = days_before_month(m.year, m.month) + m.day - 1;
  const int y = m.year - 1;
  m.weekday = (y * 365 + y / 4 - y / 100 + y / 400 + m.year_day + 1) % 7;
  return m;
}

// Week of the year by ISO 8601 and the year it belongs to.
std::pair<int, int> iso_week(const Moment& m) {
  const int weekday = (m.weekday + 6) % 7;  // 0 = Monday
  const int week = (m.year_day - weekday + 10) / 7;
  const auto weeks_in = [](int year) {
    const auto p = [](int y) { return (y + y / 4 - y / 100 + y / 400) % 7; };
    return p(year) == 4 || p(year - 1) == 3 ? 53 : 52;
  };
  if (week < 1) return {m.year - 1, weeks_in(m.year - 1)};
  if (week > weeks_in(m.year)) return {m.year + 1, 1};
  return {m.year, week};
}

std::string pad(int value, int width, char fill, char flag) {
  if (flag == '_') fill = ' ';
  if (flag == '0') fill = '0';
  std::string digits = std::to_string(value);
  while (flag != '-' && static_cast<int>(digits.size()) < width) digits.insert(digits.begin(), fill);
  return digits;
}

}  // namespace

std::string format_time(std::string_view format, const std::string& now) {
  const Moment m = parse(now);
  const int hour12 = m.hour % 12 == 0 ? 12 : m.hour % 12;
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    const size_t begin = i++;
    char flag = '\0';
    while (i + 1 < format.size() && std::string_view("-_0^#").find(format[i]) != std::string_view::npos)
      flag = format[i++];
    std::string part;
    switch (format[i]) {
      case 'Y':
        part = std::to_string(m.year);
        break;
      case 'C':
        part = pad(m.year / 100, 2, '0', flag);
        break;
      case 'y':
        part = pad(m.year % 100, 2, '0', flag);
        break;
      case 'm':
        part = pad(m.month, 2, '0', flag);
        break;
      case 'd':
        part = pad(m.day, 2, '0', flag);
        break;
      case 'e':
        part = pad(m.day, 2, ' ', flag);
        break;
      case 'H':
        part = pad(m.hour, 2, '0', flag);
        break;
      case 'k':
        part = pad(m.hour, 2, ' ', flag);
        break;
      case 'I':
        part = pad(hour12, 2, '0', flag);
        break;
      case 'l':
        part = pad(hour12, 2, ' ', flag);
        break;
      case 'M':
        part = pad(m.minute, 2, '0', flag);
        break;
      case 'S':
        part = pad(m.second, 2, '0', flag);
        break;
      case 'f':
        part = "000000";
        break;
      case 'j':
        part = pad(m.year_day + 1, 3, '0', flag);
        break;
      case 'p':
        part = m.hour < 12 ? "AM" : "PM";
        break;
      case 'P':
        part = m.hour < 12 ? "am" : "pm";
        break;
      case 'A':
        part = kDays[m.weekday];
        break;
      case 'a':
        part = std::string(kDays[m.weekday]).substr(0, 3);
        break;
      case 'B':
        part = kMonths[m.month - 1];
        break;
      case 'b':
      case 'h':
        part = std::string(kMonths[m.month - 1]).substr(0, 3);
        break;
      case 'u':
        part = std::to_string(m.weekday == 0 ? 7 : m.weekday);
        break;
      case 'w':
        part = std::to_string(m.weekday);
        break;
      case 'U':
        part = pad((m.year_day + 7 - m.weekday) / 7, 2, '0', flag);
        break;
      case 'W':
        part = pad((m.year_day + 7 - (m.weekday + 6) % 7) / 7, 2, '0', flag);
        break;
      case 'G':
        part = std::to_string(iso_week(m).first);
        break;
      case 'V':
        part = pad(iso_week(m).second, 2, '0', flag);
        break;
      case 'D':
      case 'x':
        part = format_time("%m/%d/%y", now);
        break;
      case 'F':
        part = format_time("%Y-%m-%d", now);
        break;
      case 'T':
      case 'X':
        part = format_time("%H:%M:%S", now);
        break;
      case 'R':
        part = format_time("%H:%M", now);
        break;
      case 'r':
        part = format_time("%I:%M:%S %p", now);
        break;
      case 'c':
        part = format_time("%a %b %e %H:%M:%S %Y", now);
        break;
      case 'n':
        part = "\n";
        break;
      case 't':
        part = "\t";
        break;
      case '%':
        part = "%";
        break;
      case 'Z':
      case 'z':
        break;  // a time without a zone
      default:
        part = std::string(format.substr(begin, i - begin + 1));
        break;
    }
    if (flag == '^') {
      for (char& c : part) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
    }
    out += part;
  }
  return out;
}

std::string local_time() {
  const std::time_t seconds = std::time(nullptr);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  char buffer[32];
  std::strftime(buffer, sizeof buffer, "%Y-%m-%dT%H:%M:%S", &parts);
  return buffer;
}

}  // namespace loci::jinja
