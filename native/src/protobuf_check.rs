//! Values and messages that nobody wants: they are passed over, as strictly as the official runtimes do.

use crate::avro::check_text;
use crate::column::{Bad, Res};
use crate::protobuf::{Kind, Label, Message};
use crate::protobuf_wire::{field_of, Cursor, Wire};

impl Kind {
    /// Passes over a value that nobody wants.
    pub fn check(&self, at: &mut Cursor) -> Res<()> {
        match self {
            Kind::Text(true) | Kind::Decimal { .. } => check_text(at.sized()?),
            Kind::Timestamp(_) | Kind::Wrapper(_) | Kind::Message(_) => self.check_body(at.sized()?),
            _ => match self.wire() {
                Wire::Varint => at.varint().map(|_| ()),
                Wire::Eight => at.array::<8>().map(|_| ()),
                Wire::Four => at.array::<4>().map(|_| ()),
                Wire::Sized => at.sized().map(|_| ()),
            },
        }
    }

    pub fn check_packed(&self, body: &[u8]) -> Res<()> {
        let mut at = Cursor { rest: body };
        while !at.rest.is_empty() {
            self.check(&mut at)?;
        }
        Ok(())
    }

    pub fn check_body(&self, body: &[u8]) -> Res<()> {
        match self {
            Kind::Timestamp(message) | Kind::Wrapper(message) | Kind::Message(message) => message.check(body),
            _ => Err(Bad),
        }
    }
}

impl Message {
    /// Passes over a message that nobody wants.
    pub fn check(&self, body: &[u8]) -> Res<()> {
        let mut at = Cursor { rest: body };
        while !at.rest.is_empty() {
            let (number, wire) = field_of(at.varint()?)?;
            match self.find(number).map(|i| &self.fields[i]) {
                Some(field) if field.wire as u8 == wire => field.kind.check(&mut at)?,
                Some(field) if wire == Wire::Sized as u8 && matches!(field.label, Label::Many) => {
                    field.kind.check_packed(at.sized()?)?
                }
                _ => at.skip(number, wire, 0)?,
            }
        }
        Ok(())
    }
}
