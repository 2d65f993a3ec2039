package pyspark.pravega.thrift;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.regex.Pattern;

/** A pattern of JDBC: % is any letters, _ is one letter, \ takes the meaning from the letter after it. */
final class NamePattern {
  private final StringBuilder literal = new StringBuilder();
  private final boolean wild;
  private final Pattern regex;

  /** Null and the empty text match every name. */
  NamePattern(String pattern) {
    String given = pattern == null || pattern.isEmpty() ? "%" : pattern;
    StringBuilder text = new StringBuilder();
    boolean found = false;
    for (int i = 0; i < given.length(); i++) {
      char letter = given.charAt(i);
      if (letter == '%' || letter == '_') {
        found = true;
        text.append(letter == '%' ? ".*" : ".");
        continue;
      }
      if (letter == '\\' && i + 1 < given.length()) {
        letter = given.charAt(++i);
      }
      literal.append(letter);
      text.append(Pattern.quote(String.valueOf(letter)));
    }
    wild = found;
    regex = Pattern.compile(text.toString(), Pattern.CASE_INSENSITIVE | Pattern.UNICODE_CASE | Pattern.DOTALL);
  }

  /** Whether it names one thing only. */
  boolean isName() {
    return !wild;
  }

  /** What it names, when it does. */
  String name() {
    return literal.toString();
  }

  boolean matches(String name) {
    return regex.matcher(name).matches();
  }

  /** The names that match: one that is spelled just as the pattern comes before those in other cases. */
  List<String> of(Collection<String> names) {
    if (!wild && names.contains(literal.toString())) {
      return List.of(literal.toString());
    }
    List<String> matching = new ArrayList<>();
    for (String name : names) {
      if (matches(name)) {
        matching.add(name);
      }
    }
    return matching;
  }
}
