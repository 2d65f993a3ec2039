//! Plans come from Python as JSON: what to read is decided there, and only done here.

use serde_json::Value;

pub fn get<'a>(value: &'a Value, key: &str) -> Result<&'a Value, String> {
    value.get(key).ok_or_else(|| format!("the plan lacks {key}"))
}

pub fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str, String> {
    get(value, key)?.as_str().ok_or_else(|| format!("{key} is no text"))
}

pub fn number(value: &Value, key: &str) -> Result<i64, String> {
    get(value, key)?.as_i64().ok_or_else(|| format!("{key} is no number"))
}

pub fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>, String> {
    get(value, key)?.as_array().ok_or_else(|| format!("{key} is no list"))
}

pub fn flag(value: &Value, key: &str) -> Result<bool, String> {
    get(value, key)?.as_bool().ok_or_else(|| format!("{key} is no flag"))
}
